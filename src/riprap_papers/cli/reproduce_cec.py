"""`riprap reproduce cec`: costs and recovery times of continuous checkpoints, beside the published costs."""

from typing import Annotated

import typer

_PEER_ROWS = 400_000


def command(
    rows: Annotated[int, typer.Option("--rows", help="Tuples per run.", min=1000, max=100_000_000)] = 2_000_000,
    kills: Annotated[int, typer.Option("--kills", help="Kills per case.", min=1, max=1000)] = 5,
    spark: Annotated[bool, typer.Option(help="Also run Structured Streaming.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Figures 4.3 and 4.4: fast, slow and mixed windows with and without records; and recovery (not published)."""
    from dataclasses import asdict
    from itertools import product
    from statistics import median

    from rich.table import Table

    from riprap.base.errors import MissingPrerequisite
    from riprap.base.scratch import scratch
    from riprap.cli.console import ERR, OUT, print_json
    from riprap_papers.experiments.window_records import MODES, PACED, SCENARIOS, measure, prices
    from riprap_papers.experiments.window_recovery import ESTIMATE, returns

    outcomes, recoveries, peers = [], [], []
    with scratch("cec") as folder:
        for scenario in SCENARIOS:
            table = prices(scenario, rows)
            for mode in MODES:
                for every in (2_000, 10_000, 20_000, 100_000) if mode in PACED else (0,):
                    ERR.print(f"{scenario.name}, {mode} …", style="dim")
                    measure(scenario, mode, table.slice(0, rows // 10), folder, every=every)  # warms up
                    outcomes.append(measure(scenario, mode, table, folder, every=every))
        for scenario in (*SCENARIOS, ESTIMATE):
            for every in (0, 20_000, 100_000):
                ERR.print(f"recovery, {scenario.name} …", style="dim")
                most = 1_800_000 if scenario is ESTIMATE else rows
                recoveries += returns(scenario, min(rows, most), every, kills, folder)
        if spark:
            from riprap.spark.session import session
            from riprap_papers.peers import changelog_peer

            own = session()
            for scenario, mode in product(SCENARIOS, changelog_peer.MODES):
                ERR.print(f"{scenario.name}, Structured Streaming, {mode} …", style="dim")
                place = folder / f"{scenario.name}-{mode}"
                table = prices(scenario, min(rows, _PEER_ROWS))
                try:
                    peers.append((scenario.name, changelog_peer.measure(own, mode, table, scenario.span, place)))
                except MissingPrerequisite as error:  # earlier measurements are still reported
                    ERR.print(str(error))
                    break
    if json:
        costs = [{**asdict(outcome), "rows_per_second": outcome.rows_per_second} for outcome in outcomes]
        beside = [{"scenario": name, **asdict(one), "rows_per_second": one.rows_per_second} for name, one in peers]
        print_json({"costs": costs, "recoveries": [asdict(one) for one in recoveries], "structured_streaming": beside})
        return
    native = {one.scenario: one.rows_per_second for one in outcomes if one.mode == "native"}
    costs_table = Table(title="Throughput and records", box=None, collapse_padding=True, pad_edge=False)
    for name in ("windows", "mode", "T, ms", "rows/s", "less", "opened", "checked", "closed", "within", "turn"):
        costs_table.add_column(name, justify="left" if name in ("windows", "mode") else "right")
    for one in outcomes:
        totals = one.totals
        costs_table.add_row(
            one.scenario, one.mode, f"{one.every / 1000:g}" if one.every else "", f"{one.rows_per_second:,.0f}",
            f"{1 - one.rows_per_second / native[one.scenario]:.0%}", f"{totals.opened:,}", f"{totals.checked:,}",
            f"{totals.closed:,}", f"{totals.within:,}", f"{one.longest * 1e3:.1f}",
        )  # fmt: skip
    OUT.print(costs_table)
    cost = "; ".join(f"{scenario.name} {scenario.published}" for scenario in SCENARIOS)
    OUT.print(
        "native: nothing is stored; net: records are built and discarded; kept: the output is persistent, without "
        "records; disk: with records; checks: also with T; interval: kept, and a checkpoint of all windows every T. "
        "T = H; less: slower than native by; turn: longest iteration of the loop, ms. Published, less than native: "
        f"{cost}."
    )
    OUT.print(
        "Published records: opened 1,048,576 for as many windows (fast), 8,192 for 8,192 (slow), 524,386 for 524,288 "
        "(mixed); checked, mixed: 718,874 (2 ms), 35,000 (20 ms), 76 (100 ms). Here one record covers many appends; "
        "records are a hundred times as far apart as writing one takes. Windows that open and close between two "
        "records are only counted, as within; a slow window is checked once in T, by its new rows. Counts are those "
        "of the newest record and exclude what came after it."
    )
    if peers:
        beside_table = Table(title="Structured Streaming, RocksDB, windows of equal event time", box=None)
        for name in ("windows", "state saved by", "rows/s", "commit, mean of a micro-batch", "open"):
            beside_table.add_column(name, justify="left" if name in ("windows", "state saved by") else "right")
        for name, peer in peers:
            beside_table.add_row(
                name, peer.mode, f"{peer.rows_per_second:,.0f}", f"{peer.commit * 1e3:.0f} ms", f"{peer.windows:,}"
            )
        OUT.print(beside_table)
    back = Table(title=f"Recovery, median of {kills}: time, without detection and restart", box=None)
    for name in ("windows", "T = H", "ms", "most", "records read", "open", "rows replayed", "input, MB", "state, KB"):
        back.add_column(name, justify="left" if name == "windows" else "right")
    cases = dict.fromkeys((item.scenario, item.every) for item in recoveries)
    for scenario_name, every in cases:
        some = [item for item in recoveries if (item.scenario, item.every) == (scenario_name, every)]
        back.add_row(
            scenario_name, f"{every / 1000:g} ms" if every else "no checks",
            f"{median(item.seconds for item in some) * 1e3:.0f}", f"{max(item.seconds for item in some) * 1e3:.0f}",
            f"{median(item.records for item in some):,.0f}", f"{median(item.windows for item in some):,.0f}",
            f"{median(item.replayed for item in some):,.0f}",
            f"{median(item.replayed_bytes for item in some) / 1e6:.2f}",
            f"{median(item.state_bytes for item in some) / 1e3:.1f}",
        )  # fmt: skip
    OUT.print(back)
    OUT.print(f"the published estimate for 100 windows of 10,000 tuples of 100 bytes: {ESTIMATE.published}")
