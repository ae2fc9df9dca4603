"""Fixtures for the whole suite. Spark is started once per test process, and only in processes that need it."""

import os

import pytest
from tests import compilations, order, profiles

profiles.register()

# The tests' Spark tasks and the tests themselves import the same installed package.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def pytest_configure(config):
    compilations.begin(config)


def pytest_sessionfinish(session):
    compilations.finish(session)


def pytest_unconfigure(config):
    compilations.end(config)


def pytest_collection_modifyitems(items):
    order.longest_first(items)


@pytest.fixture(autouse=True)
def _own_path():
    """`main()` changes the environment of all processes below its own: not for good in the tests' process."""
    machine_code = os.environ.get("NUMBA_CACHE_DIR")
    yield
    os.environ.pop("PYTHONSAFEPATH", None)
    if machine_code is None:
        os.environ.pop("NUMBA_CACHE_DIR", None)


@pytest.fixture(scope="session")
def spark():
    from riprap.spark.session import session

    # a JVM that lives for minutes is better off without the costly compiler
    return session(master="local[2]", **{"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"})
