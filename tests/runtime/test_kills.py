"""What `--kill` is read as, and what it says when it cannot be read."""

import pytest

from riprap.apps.catalogue import load_app
from riprap.base.errors import UsageError
from riprap.runtime.coordination.groups import with_kills
from riprap.runtime.kills import Kill, parse_kills
from riprap.runtime.layout import arrange

SINGLE = arrange(load_app("bargain-discovery"), "none")
SHARDED = arrange(load_app("bargain-discovery"), "none", {"Aggregator": 2})
FUSED = arrange(load_app("bargain-discovery"), "auto")
SECOND = 1_000_000


def test_kills_come_in_the_order_of_their_times():
    assert parse_kills("driver@30s, Aggregator@1.5s,executor@20s", SINGLE) == (
        Kill(1_500_000, "pe", ("Aggregator",)),
        Kill(20 * SECOND, "executor"),
        Kill(30 * SECOND, "driver"),
    )


def test_nothing_to_kill():
    assert parse_kills("", SINGLE) == ()
    assert parse_kills(" , ", SINGLE) == ()
    assert parse_kills(None, SINGLE) == ()


def test_what_is_no_text_is_said():
    """From Python, where nobody has looked at it before."""
    with pytest.raises(UsageError, match="write one text with commas"):
        parse_kills(["Aggregator@1s"], SINGLE)


def test_an_operator_means_all_its_shards_and_a_shard_one():
    assert parse_kills("Aggregator@1s", SHARDED) == (Kill(SECOND, "pe", ("Aggregator/0", "Aggregator/1")),)
    assert parse_kills("Aggregator/1@1s", SHARDED) == (Kill(SECOND, "pe", ("Aggregator/1",)),)


def test_a_fused_operator_means_the_element_that_hosts_it():
    [home] = FUSED.hosting("VWAP")
    assert home.id != "VWAP"
    assert parse_kills("VWAP@1s", FUSED) == (Kill(SECOND, "pe", (home.id,)),)


def test_one_operator_may_be_killed_twice_at_once():
    assert len(parse_kills("VWAP@1s,VWAP@1s,driver@1s", SINGLE)) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("VWAP", "'VWAP': write WHAT@TIME, as in Aggregator@10s"),
        ("@3s", "'@3s': write WHAT@TIME"),
        ("driver@1s,VWAP@soon", "'VWAP@soon': cannot read 'soon' as a duration"),
        ("VWAP@10", "'VWAP@10': cannot read '10' as a duration"),
        ("VWAP@-1s", "'VWAP@-1s': cannot read '-1s' as a duration"),
        ("Agregator@1s", r"no operator or element is called Agregator; .*\(did you mean Aggregator\?\)"),
        ("Aggregator/7@1s", "no operator or element is called Aggregator/7; there are .*, executor, driver"),
    ],
)
def test_mistakes_name_their_part(text, message):
    with pytest.raises(UsageError, match=message):
        parse_kills(text, SINGLE)


def test_a_failover_took_as_long_as_since_the_kill_in_its_replica_whoever_missed_it_first():
    replicas = [{"elements": [f"{name}#{number}" for name in "AB"], "state": "full"} for number in (1, 2)]

    def failed(at, lost):
        return {"at": at, "lost": lost, "seconds": 0.5}

    failovers = [failed(3_000_000, "B#1"), failed(5_000_000, "A#2"), failed(9_000_000, "A#1")]
    report = {"groups": {"g": {"active": 2, "replicas": replicas, "failovers": failovers}}}
    kills = {"A#1": [2_000_000], "B#2": [4_900_000], "A#2": [100]}
    told = with_kills(report, kills)["g"]["failovers"]
    assert [failover["from_kill"] for failover in told] == [1.5, 0.6, None]
