"""Names of what a job reads and writes have no secrets, and a version of PySpark is called tried if it is."""

import pyspark
import pytest

from riprap.base.errors import UsageError, without_secrets
from riprap.spark.jobs.assembling import last_part
from riprap.spark.jobs.plan_reader import TRIED, untried


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("s3a://key:hush@bucket", "bucket"),
        ("s3a://key:hu/sh@bucket/raw/clicks/*.json", "clicks"),
        ("s3a://key:hu@sh@bucket/", "bucket"),
        ("https://store/raw/clicks.json?sv=1&sig=hush", "clicks"),
        ("jdbc:postgresql://user:hush@host/shop", "shop"),
        ("abfss://raw@account/clicks", "clicks"),
        ("main.web.clicks", "clicks"),
    ],
)
def test_no_secret_of_an_address_becomes_a_name_or_part_of_an_error(location, name):
    assert last_part(location) == name
    error = str(UsageError(f"job.py, line 3: the stream from {location} cannot be read; give another"))
    assert not any(part in location and part in error for part in ("hush", "hu/sh", "hu@sh", "key:"))
    assert error.startswith("job.py, line 3: the stream from ")
    assert error.endswith(" cannot be read; give another")


def test_addresses_without_secrets_stay_as_they_are():
    for text in ("see http://localhost:4040/jobs", "abfss://raw@account/clicks", "mail a@b.org: yes", "file:///a?b"):
        assert without_secrets(text) == text


def test_a_version_of_pyspark_that_was_not_tried_is_named_in_one_sentence(monkeypatch):
    assert ".".join(pyspark.__version__.split(".")[:2]) in TRIED  # this suite is what tries it
    assert untried() == []
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    (sentence,) = untried()
    assert sentence == f"plans of PySpark 4.1.4 were not tried; those of {' and '.join(TRIED)} were"
