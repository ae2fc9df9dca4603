"""Market data: the schema and the published statistics, for several seeds."""

from riprap.apps import market


def test_schema():
    table = market.generate(10_000, seed=1)
    table.validate(full=True)
    assert table.schema == market.SCHEMA
    assert table.num_rows == 10_000
