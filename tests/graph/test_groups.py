"""HA groups: which can be replicated, what is wrong with others, and how long operators remember."""

import pytest

from riprap.base.errors import GraphError, PlanError
from riprap.graph.annotations import full_replication, ha_group
from riprap.graph.builder import App
from riprap.graph.ha_groups import copies_of, ha_groups, memory_of
from riprap.graph.plan_file import parse_plan, plan_of, write_plan
from riprap.graph.windows import count, time


def diamond():
    app = App("diamond")
    source = app.source("S", "k string, x long")
    left, right = source.filter("x > 1", name="L"), source.filter("x < 1", name="R")
    left.union(right, name="U").aggregate("sum(x) AS x", window=count(3), by="k", name="A").sink("Out")
    return app.build()


def planned(*members: str, extra: str = ""):
    operators = "\n".join(f'[operators.{name}]\nha_group = "g"' for name in members)
    return parse_plan(f'app = "diamond"\n{operators}\n[ha_groups.g]\nreplicas = 2\n{extra}').apply(diamond())


@pytest.mark.parametrize("members", [("L",), ("L", "U", "R"), ("S", "L", "R"), ("U", "A")], ids=str)
def test_connected_groups_are_found_in_the_order_of_the_graph(members):
    ((group, found),) = ha_groups(planned(*members)).items()
    assert (group.name, group.replicas, set(found)) == ("g", 2, set(members))


@pytest.mark.parametrize(
    ("members", "why"),
    [
        (("L", "R"), "HA group g is not connected: no stream of the group leads from L to R"),
        (("S", "U", "A"), "HA group g is not connected: no stream of the group leads from S to U or A"),
        (("A", "Out"), "Out is a sink and in HA group g"),
    ],
    ids=str,
)
def test_others_are_refused_in_a_sentence(members, why):
    with pytest.raises(GraphError, match=why) as refused:
        planned(*members)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)


def test_an_operator_that_is_listed_twice_is_refused():
    with pytest.raises(PlanError) as refused:
        planned("L", "L")
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)


def test_full_replication_goes_without_groups():
    with pytest.raises(GraphError, match=r"full replication runs every operator .* and L is in HA group g"):
        planned("L", extra="[replication]\ncopies = 2")


def test_full_replication_is_for_deterministic_operators(monkeypatch):
    monkeypatch.setattr(type(diamond()["U"]), "deterministic", property(lambda spec: False))
    with pytest.raises(GraphError, match="operators have to be deterministic, and U is not"):
        parse_plan('app = "diamond"\n[replication]\ncopies = 3').apply(diamond())


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("[operators.A]\nbackup = true", "A retains its output, which copies cannot write together"),
        ("[operators.S]\npersist = [0]", "S retains its output"),
        ('[operators.A]\ncheckpoint = "1s"', "A has checkpoints: a copy gets its state from another copy"),
    ],
    ids=str,
)
def test_copies_save_nothing_of_their_own(table, why):
    with pytest.raises(GraphError, match=why) as refused:
        parse_plan(f'app = "diamond"\n{table}\n[replication]\ncopies = 2').apply(diamond())
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)


def test_in_code_it_is_of_the_app():
    app = App("x", protect=full_replication(3))
    app.source("S", "x long").filter("x > 1", name="F").sink("Out")
    graph = app.build()
    assert [spec.annotations.copies for spec in graph] == [1, 3, 1]
    assert parse_plan(write_plan(plan_of(graph))) == plan_of(graph)
    assert plan_of(graph).copies == 3
    for copies in (1, 65, "2", True):
        with pytest.raises(GraphError, match=r"expected a whole number, 2 or more"):
            full_replication(copies)
    with pytest.raises(GraphError, match=r"only full_replication\(\) protects a whole app"):
        App("x", protect=ha_group("g"))
    other = App("y")
    other.source("S", "x long").filter("x > 1", name="F", protect=full_replication()).filter("x > 2", name="G").sink(
        "O"
    )
    with pytest.raises(GraphError, match="G has 1; give it to the app"):
        copies_of(other.build())


def test_a_group_has_one_number_of_replicas():
    app = App("x")
    app.source("S", "x long").filter("x > 1", name="F", protect=[ha_group("g", 2)]).filter(
        "x > 2", name="G", protect=[ha_group("g", 3)]
    ).sink("Out")
    with pytest.raises(GraphError, match="HA group g has 2 replicas at F and 3 at G"):
        ha_groups(app.build())


def test_operators_with_time_windows_forget_after_them():
    app = App("x")
    stream = app.source("S", "k string, x long")
    stream.aggregate("sum(x) AS x", window=time("5s"), every=time("1s"), by="k", name="T").sink("A")
    stream.aggregate("sum(x) AS x", window=count(5), by="k", name="C").sink("B")
    stream.aggregate("sum(x) AS x", window=time("5s"), every=count(2), by="k", name="M").sink("D")
    graph = app.build()
    assert [memory_of(graph[name]) for name in ("S", "T", "C", "M")] == [0, 5_000_000, None, None]
