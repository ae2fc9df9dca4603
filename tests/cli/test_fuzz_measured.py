"""What was measured and written down, mutated: profiles, schedules of faults, proofs, requests, comparisons, GraphML.

As in `test_fuzz.py`, whose mutations these are: it is taken, or refused in one sentence.
"""

import json
import random
from pathlib import Path

import pytest
from refusals import check_sentence
from test_fuzz import GRAPH, STRANGE, mutated_bytes, mutated_text, mutated_value

from riprap.api.impact import read_request
from riprap.api.plan_summary import _measured
from riprap.api.predicted_effects import read_assessed
from riprap.api.request import AssessRequest
from riprap.base.errors import RiprapError, as_sentence
from riprap.graph.mapping import routes_of
from riprap.planner.backup_plan import given_backups
from riprap.planner.costs import read_costs
from riprap.planner.problem import problem
from riprap.planner.topology_files import read_profile, read_recovery, read_topology
from riprap.proof.schedule import Choices, Demand, read_schedule
from riprap.san.streaming.describe import describe
from riprap.san.streaming.describe import read_profile as read_for_model
from riprap_papers.compare.comparison import _Done
from riprap_papers.compare.grid import ComparedCase
from riprap_papers.compare.measures import Result
from riprap_papers.compare.simulated_costs import profiles
from riprap_papers.report.comparison_page import comparison_report

COST = {"cpu": 0.1, "memory": 1.0, "storage": 0.0, "network": 1.0}
PROFILE = {
    "app": "wordcount", "seconds": 10.0, "tuples": 5000, "taken": 0.01,
    "pieces": [
        {"operators": ["Source"], "tuples": 5, "batches": 1, "seconds_per_tuple": 1e-8, "seconds_per_batch": 1e-3}
    ],
    "operators": {
        spec.name: {
            "kind": spec.kind, "tuples_in": [500] * max(1, spec.inputs), "tuples_out": [500] * spec.outputs,
            "mean_rate": [50.0] * max(1, spec.inputs), "peak_rate": [99.0] * max(1, spec.inputs),
            "selectivity": [1.0] * spec.outputs, "port_selectivity": [1.0] * max(1, spec.inputs),
            "seconds_per_tuple": 1e-8, "state_tuples": 4, "state_bytes": 40, "port_state": [4] * spec.inputs,
        }
        for spec in GRAPH.operators
    },
    "recovery": {"restart": 0.5, "durable": 0.1, "restart_median": 0.3, "durable_median": 0.05},
    "costs": {"seconds": 5.0, "rate": 1.0, "every": 1.0, "operators": {"VWAP": {"running": COST, "checkpoint": COST}}},
}  # fmt: skip
SCHEDULE = {
    "faults": [
        {"at": "10s", "kind": "hang", "targets": ["Aggregator"], "lasts": "6s", "share": 0.25},
        {"at": "5s", "kind": "kill", "targets": ["VWAP"]},
    ]
}
CHOICES = Choices({"Aggregator": ("Aggregator",), "VWAP": ("VWAP",)}, {"hang": Demand(), "kill": Demand()})
ASSESSMENT = {
    "app": GRAPH.name, "operators": {"VWAP": {"failures_per_day": 1, "impact": [{"outage": "1s", "impact": 0.8}]}},
}  # fmt: skip
REQUEST = {
    "inputs": {"Source": "market.arrow"}, "scale": "demo", "offsets": [1, 2], "reps": 2, "osf": ["sum(gain)"],
    "section": 5000, "threshold": 0.03, "percentile": 90.0, "signed": False, "errors": "over", "outages": ["1s"],
}  # fmt: skip
PROOF = {"faults": [{"targets": [name], "caught_up": 1.0, "latency": 0.5} for name in ("Aggregator", "VWAP/0")]}
RESULT = Result(391.0, 17.6, 20.1, 20.1, 11, 0, 14038.4, 3.1, 0.1, 0.65, 0.04, 0.7, None, None, 0.3, 0, 0, 0,
                ((0.0, 391.0, 20.0), (0.3, 0.0, -1.0)), 200.0)  # fmt: skip
CASE = ComparedCase("wordcount", "coordinated", 2_000_000, "small", True, 200.0, 4.0)
LINE = {"host": "simulated", "case": vars(CASE), "result": RESULT.as_json()}
GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="node" attr.name="T" attr.type="double"/>
<key id="d1" for="edge" attr.name="feedback" attr.type="boolean"/>
<graph edgedefault="directed"><node id="a"><data key="d0">1.5</data></node><node id="b"><data key="d0">2</data></node>
<edge source="a" target="b"><data key="d1">false</data></edge></graph></graphml>"""


def toml(value, top=True):
    match value:
        case dict():
            pairs = [f"{json.dumps(str(key))} = {toml(each, False)}" for key, each in value.items()]
            return "\n".join(pairs) if top else "{" + ", ".join(pairs) + "}"
        case list():
            return "[" + ", ".join(toml(each, False) for each in value) + "]"
        case None:
            return "inf"
        case _:
            return json.dumps(value)


def written(path, value, write, random_):
    for _ in range(random_.randrange(1, 4)):
        value = mutated_value(value, random_)
    text = write(value)
    if random_.random() < 0.2:
        text = mutated_text(text, random_)
    path.write_bytes(mutated_bytes(text, random_))


def use_profile(place: Path, random_):
    path = place / "profile.toml"
    written(path, PROFILE, toml, random_)
    readers = [
        read_profile, read_recovery, read_costs, lambda path: profiles([path]),
        lambda path: describe(GRAPH, read_for_model(path)),
    ]  # fmt: skip
    yield from (lambda read=read: read(path) for read in readers)


def use_schedule(place: Path, random_):
    written(place / "s.toml", SCHEDULE, toml, random_)
    yield lambda: read_schedule(place / "s.toml", CHOICES, 60)


def use_assessment(place: Path, random_):
    written(place / "request.json", REQUEST, json.dumps, random_)
    (place / "assessment.json").write_text(json.dumps(ASSESSMENT))
    yield lambda: read_assessed(place, GRAPH)
    yield lambda: read_request(place, AssessRequest, GRAPH, place / "plan.toml")


def use_proof(place: Path, random_):
    written(place / "proof.json", PROOF, json.dumps, random_)
    yield lambda: _measured(place)


def use_comparison(place: Path, random_):
    written(place / "results.jsonl", LINE, lambda value: json.dumps(value) + "\n", random_)

    def shown():
        done = _Done(place / "results.jsonl", "simulated")
        if done.results:
            comparison_report(done.results, host="", command="")

    yield shown


def use_graphml(place: Path, random_):
    text = GRAPHML
    for _ in range(random_.randrange(1, 3)):
        text = mutated_text(text, random_)
    (place / "t.graphml").write_bytes(mutated_bytes(text, random_))
    yield lambda: given_backups(problem(read_topology(place / "t.graphml"), 10_000_000), ())


def use_mapping(place: Path, random_):
    text = f"IBM,0\nAPPL,1\n{random_.choice(STRANGE)},{random_.choice(STRANGE)}\n"
    (place / "m.csv").write_bytes(mutated_bytes(mutated_text(text, random_), random_))
    spec = GRAPH["TradeFilter"]
    schema = GRAPH.input_schemas("TradeFilter")[0]
    for column in ("ticker", "size"):
        yield lambda column=column: routes_of(spec.name, column, schema.field(column).type, place / "m.csv")


USES = {
    "profile": (use_profile, 100),
    "schedule": (use_schedule, 200),
    "assessment": (use_assessment, 200),
    "proof": (use_proof, 200),
    "comparison": (use_comparison, 200),
    "graphml": (use_graphml, 200),
    "mapping": (use_mapping, 200),
}


@pytest.mark.parametrize("kind", USES)
def test_mutated_measurements_are_taken_or_refused_in_a_sentence(tmp_path, kind):
    use, times = USES[kind]
    taken = refused = 0
    for seed in range(times):
        for action in use(tmp_path, random.Random(f"{kind}-{seed}")):
            try:
                action()
                taken += 1
            except RiprapError as error:
                refused += 1
                check_sentence(as_sentence(str(error)))
            except BaseException as error:
                raise AssertionError(f"{kind}, seed {seed}") from error
    assert refused > times / 10
    assert taken, "nothing that is used was ever looked at"


@pytest.mark.parametrize("output", ["²", "٣", "9" * 30, "-1", "", "1.0"])
def test_outputs_of_a_mapping_that_are_no_numbers(tmp_path, output):
    (tmp_path / "m.csv").write_text(f"IBM,{output}\n")
    schema = GRAPH.input_schemas("TradeFilter")[0]
    with pytest.raises(RiprapError, match=r"as in IBM,0|at most"):
        routes_of("Split", "ticker", schema.field("ticker").type, tmp_path / "m.csv")


def test_a_comparison_that_was_killed_in_the_middle_of_a_line_goes_on(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(LINE) + "\n" + json.dumps(LINE)[:100])
    assert _Done(path, "simulated").results == {CASE: RESULT}
    done = _Done(path, "simulated")
    done.add(CASE, RESULT)
    assert len(path.read_text().splitlines()) == 2
    assert _Done(path, "simulated").results == {CASE: RESULT}
