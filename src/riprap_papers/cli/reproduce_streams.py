"""`riprap reproduce streams`: the cost of persistent output and the recovery of a consumer, published beside ours."""

from typing import Annotated

import typer

_SIZE, _RATE = 1024, 26_000  # bytes of a tuple, and tuples a second, of the run with a kill: as published


def command(
    megabytes: Annotated[int, typer.Option("--megabytes", help="Tuples per run.", min=1, max=100_000)] = 128,
    seconds: Annotated[
        float, typer.Option("--seconds", help="Length of the run with a kill; 0: no such run.", min=0, max=86_400)
    ] = 15,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Figures 3.5 to 3.9 and table 3.1: tuples of 256 B to 4 KiB, batching 1 to 64, chains of 1 to 8 filters; and 3.10:
    a consumer of a persistent stream is killed."""
    from dataclasses import asdict

    from rich.table import Table

    from riprap.base.scratch import scratch
    from riprap.cli.console import ERR, OUT, print_json
    from riprap_papers.experiments import consumer_recovery
    from riprap_papers.experiments.persistent_chain import BATCHING, CHAINS, MODES, PUBLISHED, SIZES, measure

    cases = [(size, batching, 1) for size in SIZES for batching in BATCHING]
    cases += [(4096, 16, chain) for chain in CHAINS[1:]]
    outcomes = []
    with scratch("streams") as folder:
        for size, batching, chain in cases:
            ERR.print(f"tuples of {size} bytes, batching {batching}, chain of {chain} …", style="dim")
            for mode in MODES:
                measure(size, batching, chain, mode, 4 << 20, folder)  # warms up
                outcomes.append(measure(size, batching, chain, mode, megabytes << 20, folder))
        back = None
        if seconds:
            back = consumer_recovery.reproduce(
                folder / "kill", size=_SIZE, rate=_RATE, seconds=seconds,
                say=lambda text: ERR.print(text, style="dim"),
            )  # fmt: skip
    if json:
        rows = [{**asdict(one), "rate": one.rate, "predicted": one.predicted} for one in outcomes]
        killed = None if back is None else {**asdict(back), "published": consumer_recovery.PUBLISHED}
        print_json({"rows": rows, "published": PUBLISHED, "kill": killed})
        return
    table = Table(title="Throughput of a chain, MB/s, and bytes that are not yet stable", box=None)
    for name in ("tuple", "batching", "chain", "native", "async", "fsync", "ratio", "M", "M measured"):
        table.add_column(name, justify="right")
    by_case = {(one.size, one.batching, one.chain, one.mode): one for one in outcomes}
    for size, batching, chain in cases:
        native, stored, stable = (by_case[size, batching, chain, mode] for mode in MODES)
        table.add_row(
            f"{size} B", str(batching), str(chain), *(f"{one.rate / 1e6:,.0f}" for one in (native, stored, stable)),
            f"{stored.rate / native.rate:.2f}", f"{stable.predicted / 1e3:,.0f} KB", f"{stable.seen / 1e3:,.0f} KB",
        )  # fmt: skip
    OUT.print(table)
    OUT.print(
        f"native: nothing is stored; ratio: async to native; published, 4 KiB and batching 16: {PUBLISHED}. "
        "M: the prediction of equation 3.1 for the runs with fsync, beside the measured value."
    )
    if back is not None:
        before, catching, after = (rate * _SIZE / 1e6 for rate in (back.before, back.catching, back.after))
        end = f"until it had caught up, then {after:,.0f} MB/s"
        if not back.after:
            end = "until the input ended, before it had caught up (increase --seconds)"
        OUT.print(
            f"A consumer was killed at {before:,.0f} MB/s: nothing reached the receiver for {back.down:.2f} s, then "
            f"{catching:,.0f} MB/s for {back.caught:.2f} s {end}. Published: {consumer_recovery.PUBLISHED}."
        )
