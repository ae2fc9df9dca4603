"""`riprap reproduce yield`: repeats the published crashes of a learning model, with and without a checkpoint."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riprap.cli.output_paths import output_directory

if TYPE_CHECKING:
    from riprap_papers.experiments.yield_crashes import Study


def command(
    crashes: Annotated[int, typer.Option("--crashes", help="Crashes, each in both scenarios.", min=1, max=10_000)] = 40,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the data and of the crashes.")] = 1,
    real: Annotated[
        bool, typer.Option("--real", help="Kill the process of the running model: 25 minutes for 40 crashes.")
    ] = False,
    shards: Annotated[
        int,
        typer.Option("--shards", help="With --real: shards of operators but sources, model and sink.", min=1, max=1024),
    ] = 1,
    out: Annotated[Path | None, typer.Option("--out", help="Write a report and the results to this directory.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Yield prediction whose model crashes: errors with the latest checkpoint and from scratch."""
    from riprap.cli.console import ERR, print_json
    from riprap_papers.experiments import yield_crashes

    output_directory(out)
    if real:
        _real(crashes, seed, shards, out or Path("yield-kills"), as_json=json)
        return
    if not json:
        ERR.print(f"yield-prediction: {crashes} crashes, each with a checkpoint and from scratch …", style="dim")
    study = yield_crashes.study(yield_crashes.recorded(seed), yield_crashes.crashes(seed, crashes))
    result = {"seed": seed, **_result(study)}
    if out is not None:
        _write(out, study, result, f"riprap reproduce yield --crashes {crashes} --seed {seed}")
    if json:
        print_json(result)
    else:
        _print(result, out)


def _real(kills: int, seed: int, shards: int, out: Path, *, as_json: bool) -> None:
    """The same with a real run; prints a table of both scenarios."""
    import json

    from rich.table import Table

    from riprap.base.errors import UsageError
    from riprap.cli.console import ERR, OUT, print_json
    from riprap_papers.experiments.yield_crashes import PUBLISHED_RMSE
    from riprap_papers.experiments.yield_kills import yield_kills
    from riprap_papers.report.yield_report import kills_report

    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} exists and is not empty: give another directory with --out")

    def report(entry: Any, fault: Any) -> None:
        if not as_json and entry["what"] == "running":
            ERR.print(f"{entry['ran']:6.1f} s  the model runs again", highlight=False)

    found = yield_kills(out, kills=kills, seed=seed, shards=shards, tell=report)
    result = {
        "seed": seed,
        "scenarios": {
            name: {**killed.as_json(), "published_rmse": PUBLISHED_RMSE[name]} for name, killed in found.items()
        },
    }
    (out / "results.json").write_text(json.dumps(result, indent=2) + "\n")
    results = {name: killed.as_json() for name, killed in found.items()}
    command = f"riprap reproduce yield --real --crashes {kills} --seed {seed} --shards {shards}"
    (out / "yield.html").write_text(
        kills_report(results, {name: killed.errors for name, killed in found.items()}, command=command)
    )
    if as_json:
        print_json(result)
        return
    table = Table(box=None, title="Prediction errors after real kills of the model", title_justify="left")
    for heading in ("model restarts with", "kills", "elements", "RMSE", "published", "worst", "tuples lost", "outage"):
        table.add_column(heading, justify="left" if heading == "model restarts with" else "right")
    for name, killed in found.items():
        table.add_row(
            "S2, latest checkpoint" if name == "S2" else "S3, from scratch", str(killed.kills), str(killed.elements),
            f"{killed.rmse:#.3g}", f"{PUBLISHED_RMSE[name]:.2f}", f"{killed.worst:.2g}", f"{killed.lost:,}",
            f"{killed.away:.2f} s",
        )  # fmt: skip
    OUT.print(table)
    OUT.print(f"{out / 'yield.html'}", soft_wrap=True)


def _result(study: "Study") -> dict[str, Any]:
    import numpy as np

    from riprap.apps.fab import START_US
    from riprap_papers.experiments.yield_crashes import PUBLISHED_PROCESSED, PUBLISHED_RMSE, PUBLISHED_WORST, SCENARIOS
    from riprap_papers.report.yield_report import NAMES, THRESHOLDS

    scenarios = {
        scenario: {
            "restored": NAMES[scenario],
            "rmse": study.rmse(scenario),
            "published_rmse": PUBLISHED_RMSE[scenario],
            "quantiles": {q: float(np.percentile(study.errors(scenario), int(q))) for q in ("50", "90", "99")},
            "worst": float(study.errors(scenario)[-1]),
            "published_worst_of_one_run": PUBLISHED_WORST[scenario],
            "mean_tuples_processed": study.tuples - float(np.mean(study.lost)),
            "published_mean_tuples_processed": PUBLISHED_PROCESSED[scenario],
            "wafers_not_predicted": sum(outcome.missing for outcome in study.outcomes[scenario]),
            "cdf": study.cdf(scenario, THRESHOLDS).tolist(),
        }
        for scenario in SCENARIOS
    }
    runs = [
        {
            "crash_seconds": (crash.at - START_US) / 1e6,
            "outage_seconds": crash.outage / 1e6,
            "tuples_lost": lost,
            "rmse": {scenario: study.outcomes[scenario][number].rmse for scenario in SCENARIOS},
            "worst": {scenario: study.outcomes[scenario][number].worst for scenario in SCENARIOS},
        }
        for number, (crash, lost) in enumerate(zip(study.crashes, study.lost, strict=True))
    ]
    return {
        "crashes": len(study.crashes),
        "predictions": len(study.golden.wafers),
        "tuples": study.tuples,
        "golden_qm_rms": float(np.sqrt(np.mean(study.golden.qm**2))),
        "cdf_at": THRESHOLDS.tolist(),
        "scenarios": scenarios,
        "runs": runs,
    }


def _write(out: Path, study: "Study", result: dict[str, Any], command: str) -> None:
    import json

    from riprap.base.errors import UsageError
    from riprap_papers.report.yield_report import yield_report

    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "yield.html").write_text(yield_report(study, command=command))
        (out / "results.json").write_text(json.dumps(result, indent=2) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}") from error


def _print(result: dict[str, Any], out: Path | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from riprap.cli.console import OUT
    from riprap_papers.report.yield_report import OTHER_DATA

    title = f"Prediction errors after a crash of the model, percentage points: {result['crashes']} crashes"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("model restarts with", no_wrap=True)
    for heading in ("RMSE", "published", "median", "90 %", "99 %", "worst"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, scenario in result["scenarios"].items():
        spread = [*scenario["quantiles"].values(), scenario["worst"]]
        table.add_row(
            f"{name}, {scenario['restored']}",
            f"{scenario['rmse']:#.3g}",
            f"{scenario['published_rmse']:.2f}",
            *(f"{value:.2g}" for value in spread),
        )
    OUT.print(table)
    OUT.print(OTHER_DATA)
    if out is not None:
        OUT.print(f"report: {out / 'yield.html'}", markup=False)
