"""`prove`: runs an app under its plan, injects faults on schedule, and checks its output against what was promised.

from riprap.api.prove import prove
proof = prove("bargain-discovery", {"Source": "market.parquet"}, plan="plan.toml", out="proof", seconds=60, seed=7)
proof.holds        # whether every promise was kept; proof.broken lists those that were not
proof.faults       # each fault, and how long until everything ran again

The run has its own process, so that its driver can be killed, too; it is then resumed. The directory has the run in
`run/`, the injected faults and observations in `faults.jsonl`, and the verdict in `proof.json` and `proof.html`.
"""

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from riprap.api.app_inputs import as_graph, independent_rows
from riprap.api.predicted_effects import read_assessed, with_effects
from riprap.api.prove_options import ProveOptions
from riprap.api.request import score_functions
from riprap.api.run import Inputs, resume, run
from riprap.api.run_options import RunOptions
from riprap.api.run_settings import settings_of
from riprap.apps.catalogue import load_function
from riprap.base import files
from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.errors import CheckFailed, DataError, MissingPrerequisite, RiprapError, UsageError
from riprap.base.options import made, takes
from riprap.base.owner import is_empty, owned
from riprap.base.processes import safe_path
from riprap.base.quantities import show_duration
from riprap.engine.inputs import count_rows
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.plan_file import parse_plan
from riprap.planner.topology_files import read_profile, read_recovery
from riprap.proof.fault_kinds import KINDS
from riprap.proof.independent import disagreements
from riprap.proof.injector import RUN, Injector, read_observations
from riprap.proof.oracle import difference, expected_rows, found_rows, streams_of
from riprap.proof.prediction import paces_at, predictions
from riprap.proof.quality import qualities
from riprap.proof.schedule import GROUP, Choices, ScheduledFault, draw, read_schedule
from riprap.proof.verdict import Proof, judge, results
from riprap.report.prove import proof_report
from riprap.report.replicas import replicas
from riprap.runtime.layout import Layout, Pe
from riprap.streams import PersistentStream
from riprap.streams.stream_files import LocalFiles

_POLL = 0.2  # seconds between reads of the observations
_KINDS: dict[str, type[RiprapError]] = {
    kind.__name__: kind for kind in (CheckFailed, DataError, MissingPrerequisite, UsageError)
}

# Called with each line of `faults.jsonl` and its fault.
Tell = Callable[[Mapping[str, Any], ScheduledFault], None]


@takes(ProveOptions)
def prove(
    app: str | App | Graph,
    inputs: Inputs | Callable[[], Inputs],
    *,
    out: Path | str,
    tell: Tell = lambda entry, fault: None,
    warn: Callable[[str], None] = lambda text: None,
    command: str = "",
    **options: Any,
) -> Proof:
    """Run the inputs through the app in about `seconds`, with the faults of a file or drawn from a seed.

    Each source is paced so that its input lasts this long, or to a `rate` in tuples a second.
    `inputs` may be a function that makes them; it is called after all other checks. Options are the fields of
    `riprap.api.prove_options.ProveOptions`.
    `kinds`: the kinds of faults to draw from (default: all that are possible here), one every `every` seconds.
    `recovery`: the bound that every recovery must meet, by default the plan's. `profile`: the output of
    `riprap profile --recovery`, for predictions.
    `assessed`: the directory of an assessment; its predictions and the model's are compared with the measured effect of
    each fault.
    `oracle`: a function, or `module:function`, that takes a mapping from sources to Spark DataFrames and returns one
    from sinks to DataFrames or Arrow tables. It states the app again, for example in Spark SQL; without it, a proof is
    independent of runtime and recovery, but not of the operators.
    `osf`: output score functions, as for `assess`; the score of the output is compared with the expected score.
    """
    asked = made(ProveOptions, options)
    seconds, recovery, rate = asked.seconds, asked.recovery, asked.rate
    graph = as_graph(app)
    app = app if isinstance(app, str) else graph
    directory = files.real(out)
    if files.exists(directory) and (not files.is_directory(directory) or not is_empty(directory)):
        raise UsageError(f"{out} exists and is not an empty directory: give another one for the proof")
    settings = settings_of(
        app, graph, RunOptions(plan=asked.plan, fuse=asked.fuse, parallelism=asked.parallelism, rate=rate)
    )
    layout = settings.layout(graph)
    if recovery is None and settings.plan is not None:
        recovery = parse_plan(str(settings.plan)).recovery
    if recovery is not None and recovery <= 0:
        raise UsageError("a recovery bound must be longer than 0s: give one, as in `recovery=2s`")
    times = read_recovery(Path(asked.profile)) if asked.profile is not None else {}
    speeds = read_profile(Path(asked.profile)) if asked.profile is not None and "caught_up" in times else {}
    restart = times.get("restart")
    if recovery is not None and restart is not None and recovery <= restart:
        raise UsageError(
            f"a recovery within {show_duration(recovery)} is impossible: by the profile a process needs "
            f"{show_duration(restart)} to restart; give a longer bound"
        )
    scores = score_functions(layout.graph, asked.osf) if asked.osf else {}
    oracle = load_function(asked.oracle) if isinstance(asked.oracle, str) else asked.oracle
    assessment = read_assessed(Path(asked.assessed), layout.graph, asked.osf) if asked.assessed is not None else None
    choices = _choices(layout, asked.kinds, local=asked.master is None or asked.master.startswith("local["))
    schedule = (
        read_schedule(asked.faults, choices, seconds)
        if asked.faults is not None
        else draw(choices, seconds, asked.seed, every=asked.every)
    )
    paths = {name: Path(path).absolute() for name, path in (inputs() if callable(inputs) else inputs).items()}
    if rate is None:
        rate = {name: max(count_rows(path), 1) / seconds for name, path in paths.items()}
    arguments = {
        "app": app, "inputs": paths, "plan": asked.plan, "fuse": asked.fuse, "parallelism": dict(asked.parallelism),
        "rate": rate, "master": asked.master,
    }  # fmt: skip
    with owned(directory, "proof"):  # removed if Spark does not start
        summary = _run_through(directory, schedule, arguments, tell, warn)
    expected = expected_rows(layout.graph, paths)
    differing_app = () if oracle is None else disagreements(expected, independent_rows(oracle, paths))
    found = {name: found_rows(Path(summary["sinks"][name]["path"]), rows.schema) for name, rows in expected.items()}
    compared = {name: difference(rows, found[name]) for name, rows in expected.items()}
    sinks = {name: verdict for name, (verdict, _) in compared.items()}
    recomputed = [pe for pe in layout.pes if not pe.fragment.copied]  # copies restore from another copy
    exact = {pe.id for pe in recomputed if layout.plan(pe).exact and layout.plan(pe).units}
    rates = rate if isinstance(rate, Mapping) else {source.name: rate for source in layout.graph.sources}
    predicted = predictions(
        layout.graph, choices.elements, exact, restart, times.get("durable"), times.get("caught_up"),
        paces_at(speeds, rates),
    )  # fmt: skip
    proof = judge(
        layout.graph, choices.elements,
        results(schedule, read_observations(directory), predicted, summary["corruptions"]), sinks, summary,
        bound=recovery, seed=asked.seed,
    )  # fmt: skip
    proof = replace(proof, broken=(*differing_app, *proof.broken))
    proof = replace(proof, scores=qualities(scores, expected, {name: rows.rows for name, rows in found.items()}))
    if assessment is not None:
        members = {pe.id: pe.fragment.members for pe in layout.pes}
        differing = {name: where for name, (_, where) in compared.items()}
        rows = expected, found, differing
        fastest = max(rate.values()) if isinstance(rate, Mapping) else rate
        proof = with_effects(proof, layout.graph, members, assessment, predicted, scores, paths, fastest, rows)
    text = json.dumps(proof.as_json(), indent=2, ensure_ascii=False) + "\n"
    files.write_text(directory / "proof.json", text)
    output = [
        (item.header.written_at / 1e6, item.batch.num_rows)
        for name in sinks
        for folder in streams_of(Path(summary["sinks"][name]["path"]))
        for item in PersistentStream.open(LocalFiles(folder)).read()
    ]
    page = proof_report(proof, command=command, output=output, replicas=replicas(summary))
    files.write_text(directory / "proof.html", page)
    return proof


def _choices(layout: Layout, kinds: tuple[str, ...], *, local: bool) -> Choices:
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"fault {kind} is unknown; known: {', '.join(KINDS)}")
        if local and not KINDS[kind].local:
            raise UsageError(f"{kind}: in local mode the executor is the driver; give a `master` with executors")
    of_group: dict[str, list[str]] = {}
    for pe in layout.pes:
        if pe.fragment.group:
            of_group.setdefault(pe.fragment.group, []).append(pe.id)
    if "group" in kinds and not of_group:
        raise UsageError(
            f"group: {layout.graph.name} has no HA group under this plan; give it one, or use the fault several"
        )
    demands = {  # a kind given by name is drawn even if otherwise only schedules have it
        name: replace(kind.demand, drawn=True) if name in kinds else kind.demand
        for name, kind in KINDS.items()
        if (not kinds or name in kinds) and (kind.local or not local) and (kind.demand.targets != GROUP or of_group)
    }
    elements = {op.name: tuple(pe.id for pe in layout.hosting(op.name)) for op in layout.graph.operators}
    return Choices(
        elements, demands, tuple(map(tuple, of_group.values())),
        frozenset(pe.id for pe in layout.pes if not layout.plan(pe).units),
        frozenset(pe.id for pe in layout.pes if not any(_connected(layout, pe))),
    )  # fmt: skip


def _connected(layout: Layout, pe: Pe) -> Iterator[bool]:
    """Whether each channel of an element is a connection; logged channels are read from persistent streams."""
    return (layout.retention(channel) != "log" for channel in (*layout.inputs(pe), *layout.outputs(pe)))


def _run_through(
    directory: Path,
    schedule: tuple[ScheduledFault, ...],
    arguments: dict[str, Any],
    tell: Tell,
    warn: Callable[[str], None],
) -> dict[str, Any]:
    """The run, in one process for each incarnation of its driver."""
    spawn = multiprocessing.get_context("spawn")
    incarnations = 1 + sum(fault.kind == "driver" for fault in schedule)
    reported = 0
    for incarnation in range(incarnations):
        answers, answer = spawn.Pipe(duplex=False)
        child = spawn.Process(target=_drive, args=(answer, directory, schedule, arguments, incarnation > 0))
        with safe_path():
            child.start()
        answer.close()
        try:
            outcome: tuple[str, Any] | None = None
            while outcome is None:
                try:
                    if answers.poll(_POLL):
                        kind, value = answers.recv()
                        if kind == "warning":
                            warn(value)
                        else:
                            outcome = (kind, value)
                except EOFError:
                    outcome = ("ended", None)
                for entry in read_observations(directory)[reported:]:
                    reported += 1
                    tell(entry, schedule[entry["fault"]])
            child.join()
        except BaseException:
            child.join(20.0)  # it gets Ctrl-C, too, and ends its run
            child.kill()
            raise
        if outcome[0] == "summary":
            return dict(outcome[1])
        if outcome[0] != "ended":
            raise _KINDS.get(outcome[0], CheckFailed)(outcome[1])
        if child.exitcode != -signal.SIGKILL:
            raise CheckFailed(f"the run's process ended with code {child.exitcode}; its output is above")
    raise CheckFailed("the driver was killed more often than scheduled; find out what else kills processes here")


def _drive(
    answer: Connection, directory: Path, schedule: tuple[ScheduledFault, ...], arguments: dict[str, Any], resumed: bool
) -> None:
    """One incarnation of the driver."""
    injector = Injector(schedule, directory, SYSTEM_CLOCK)

    def warn(text: str) -> None:
        answer.send(("warning", text))

    try:
        if resumed:
            named = {"app": arguments["app"], "master": arguments["master"]}
            result = resume(directory / RUN, watch=injector, warn=warn, **named)
        else:
            result = run(out=directory / RUN, watch=injector, warn=warn, **arguments)
        answer.send(("summary", dict(result.summary)))
    except RiprapError as error:
        answer.send((type(error).__name__, str(error)))
    finally:
        injector.close()
