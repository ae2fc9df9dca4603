"""Plans say the same as annotations, in TOML, and override them; what a plan gets wrong is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.apps.bargain_discovery import build
from riprap.base.errors import PlanError
from riprap.graph.annotations import Annotations, HaGroup, Retain, checkpoint
from riprap.graph.builder import App
from riprap.graph.plan_file import Plan, parse_plan, plan_of, read_plan, write_plan

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
groups = {name: HaGroup(name, replicas) for name, replicas in [("g", 2), ('quo"ted', 3)]}
annotations = st.builds(
    lambda saved, **others: Annotations(checkpoint_every=saved or None, checkpoint_off=saved == 0, **others),
    saved=st.one_of(st.none(), st.integers(0, 10**13)),
    persist=st.one_of(st.none(), st.frozensets(st.integers(0, 3), min_size=1)),
    backup=st.booleans(),
    ha_group=st.one_of(st.none(), st.sampled_from(list(groups.values()))),
    stability=st.sampled_from((None, "async", "group", "fsync")),
    retain=st.sampled_from((None, Retain(), Retain(frozenset((0, 2)), 0.125), Retain(share=1e-3))),
)


@given(names, st.dictionaries(names, annotations, max_size=4), st.one_of(st.none(), st.integers(1, 10**13)))
def test_what_is_written_is_read_back(app, operators, recovery):
    plan = Plan(app, operators, recovery)
    assert parse_plan(write_plan(plan)) == plan


def test_a_plan_may_name_a_protocol():
    plan = Plan("a", {}, None, "coordinated", 2_000_000)
    assert parse_plan(write_plan(plan)) == plan


def test_a_plan_overrides_the_code():
    app = App("a")
    stream = app.source("S", "x long", protect=checkpoint("1s")).filter("x > 0", name="F", protect=checkpoint("2s"))
    stream.sink("Sink")
    graph = app.build()
    planned = parse_plan('app = "a"\n[operators.F]\nbackup = true\n').apply(graph)
    assert planned["F"].annotations == Annotations(backup=True)  # and no checkpoint any more
    assert planned["S"].annotations.checkpoint_every == 1_000_000
    assert parse_plan(write_plan(plan_of(planned))).apply(graph) == planned


def test_a_plan_says_of_a_stream_what_becomes_of_late_tuples():
    app = App("a")
    app.source("S", "x long").filter("x > 0", name="F").late("drop").sink("Sink")
    graph = app.build()
    assert plan_of(graph).streams == {"F→Sink": "drop"}
    planned = parse_plan('app = "a"\n[streams."S->F"]\nlate = "drop"\n[streams."F→Sink"]\n').apply(graph)
    assert {stream.id: stream.late for stream in planned.streams} == {"S→F": "drop", "F→Sink": "deliver"}
    assert parse_plan(write_plan(plan_of(planned))) == plan_of(planned)
    with pytest.raises(PlanError, match="the plan names stream S→G; app a has S→F"):
        parse_plan('app = "a"\n[streams."S→G"]\nlate = "drop"\n').apply(graph)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('app = "x"\n[streams."A→B"]\nlate = "wait"', "stream A→B: late = 'wait'; write one of deliver, drop"),
        ('app = "x"\n[streams."A→B"]\ntardy = 1', "stream A→B has unknown key tardy; known keys: late"),
        ("app = ", "this is not TOML"),
        ("", 'does not name its app; write app = "name"'),
        ('app = "x"\nspeed = 1', "the plan has unknown key speed; known keys: app, recovery, protocol, interval, "),
        ('app = "x"\n[replication]\ncopies = 1', "replication: copies = 1; write a whole number, 2 or more"),
        ('app = "x"\nreplication = 2', "replication has to be a table"),
        ('app = "x"\nrecovery = "soon"', "recovery = 'soon'; write how long a recovery may take, as in \"2s\""),
        ('app = "x"\nrecovery = "0s"', "recovery = '0s'; write how long"),
        ('app = "x"\nprotocol = 3', "protocol = 3; write the name of one"),
        ('app = "x"\ninterval = "2s"', "has an interval and no protocol"),
        ('app = "x"\nprotocol = "unaligned"\ninterval = "0s"', "interval = '0s'; write the time between checkpoints"),
        ('app = "x"\nrecovery = "2s"\nprotocol = "unaligned"', "keep one of them"),
        ('app = "x"\nrecovery = 2', "recovery = 2; write how long"),
        (
            'app = "x"\n[operators.A]\nchekpoint = "1s"',
            r"operator A has unknown key chekpoint; known keys: .*did you mean checkpoint",
        ),
        (
            'app = "x"\n[operators.A]\ncheckpoint = "soon"',
            "operator A: checkpoint = 'soon'; write an interval, as in \"1s\"",
        ),
        ('app = "x"\n[operators.A]\ncheckpoint = "0s"', "operator A: checkpoint = '0s'"),
        ('app = "x"\n[operators.A]\ncheckpoint = 3', "operator A: checkpoint = 3"),
        ('app = "x"\n[operators.A]\nbackup = "yes"', "operator A: backup = 'yes'; write true or false"),
        ('app = "x"\n[operators.A]\npersist = 0', "operator A: persist = 0; write a list of output ports"),
        ('app = "x"\n[operators.A]\npersist = [-1]', "operator A: persist"),
        ('app = "x"\n[operators.A]\nretain = "always"', "operator A: retain = 'always'; write retain = \"while-down\""),
        ('app = "x"\n[operators.A]\nretain = "while-down"\nsample = 0', "sample as a share, more than 0 and at most 1"),
        ('app = "x"\n[operators.A]\nretain = "while-down"\nsample = true', "operator A: retain = "),
        ('app = "x"\n[operators.A]\nretain = "while-down"\nretain_ports = 1', "retain_ports as a list of output ports"),
        ('app = "x"\n[operators.A]\nretain = "while-down"\nretain_ports = []', "operator A: retain = "),
        ('app = "x"\n[operators.A]\nsample = 0.5', 'operator A: sample is for retain = "while-down"; write that too'),
        (
            'app = "x"\n[operators.A]\nstability = "none"',
            "operator A: stability = 'none'; write one of async, group, fsync",
        ),
        ('app = "x"\n[operators.A]\nstability = ["fsync"]', "operator A: stability = "),
        ('app = "x"\n[operators.A]\nha_group = "g"', "operator A: HA group g is not described; described groups: none"),
        ('app = "x"\n[ha_groups.g]\nreplicas = 2', "HA group g has no members"),
        (
            'app = "x"\n[operators.A]\nha_group = "g"\n[ha_groups.g]\nreplicas = 1',
            "HA group g: replicas = 1; write a whole number, 2 or more",
        ),
        ('app = "x"\n[ha_groups.g]\ncopies = 2', "HA group g has unknown key copies; known keys: replicas"),
        ('app = "x"\noperators = 3', r"operators has to be made of tables: write \[operators.NAME\]"),
    ],
)
def test_what_a_plan_gets_wrong(text, message):
    with pytest.raises(PlanError, match=message):
        parse_plan(text)


def test_what_does_not_fit_the_graph():
    graph = build()
    with pytest.raises(PlanError, match="the plan is for app x, and this is app bargain-discovery"):
        parse_plan('app = "x"').apply(graph)
    with pytest.raises(
        PlanError, match=r"names operator Agregator; app bargain-discovery has .*did you mean Aggregator"
    ):
        parse_plan('app = "bargain-discovery"\n[operators.Agregator]\nbackup = true').apply(graph)
    with pytest.raises(PlanError, match="persists output 1 of VWAP, which has 1 outputs"):
        parse_plan('app = "bargain-discovery"\n[operators.VWAP]\npersist = [1]').apply(graph)
    with pytest.raises(PlanError, match="operator VWAP: stability applies to persistent streams, and it has none"):
        parse_plan('app = "bargain-discovery"\n[operators.VWAP]\nstability = "fsync"').apply(graph)
    parse_plan('app = "bargain-discovery"\n[operators.Sink]\nstability = "fsync"').apply(graph)  # keeps what it gets


def test_files(tmp_path):
    path = tmp_path / "plan.toml"
    with pytest.raises(PlanError, match=r"cannot read plan .*plan.toml: No such file"):
        read_plan(path)
    path.write_text("nonsense")
    with pytest.raises(PlanError, match=r"plan.toml: this is not TOML"):
        read_plan(path)
    path.write_text('app = "a"')
    assert read_plan(path) == Plan("a", {})
