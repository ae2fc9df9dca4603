"""Fixtures for the whole suite. Spark is started once per test process, and only in processes that need it."""

import os

import pytest
from hypothesis import HealthCheck, settings

# One profile for everyone: no deadlines (the machine is shared), seeds printed on failure.
settings.register_profile(
    "riprap",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("riprap")

# The tests' Spark tasks and the tests themselves import the same installed package.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@pytest.fixture(scope="session")
def spark():
    from riprap.spark.session import session

    return session(master="local[2]")
