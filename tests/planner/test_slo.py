"""Service-level objectives: what a file says, and one sentence for each mistake in it."""

from pathlib import Path

import pytest

from riprap.base.errors import UsageError
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.planner.slo import PPM, Prices, SinkSlo, Slo, read_slo

WHOLE = """
[default]
recovery = "5s"
wrong = "1%"
wrong_for = "1min"
[sinks.Invoices]
exactly_once = true
[sinks.Alerts]
wrong = 0.25
score_at_least = 0.95
[failures]
mtbf = "7d"
availability = "99.95%"
together = ["host", ["Clean", "Split"]]
[prices]
core_hour = 0.1
"""


def shop() -> Graph:
    app = App("shop")
    clean = app.source("Clicks", "user long not null, amount long not null").filter("amount > 0", name="Clean")
    clean.filter("user > 0", name="Split").sink("Invoices")
    clean.filter("amount > 100", name="Large").sink("Alerts")
    return app.build()


def read(tmp_path: Path, text: str) -> Slo:
    path = tmp_path / "slo.toml"
    path.write_text(text)
    return read_slo(path)


def test_a_file_says_what_holds_for_each_sink(tmp_path: Path) -> None:
    slo = read(tmp_path, WHOLE)
    slo.check(shop(), ["Alerts"])
    assert slo.of("Other") == SinkSlo(5_000_000, 10_000, 60_000_000)  # type: ignore[arg-type]
    assert slo.of("Invoices").exactly_once
    assert slo.of("Alerts") == SinkSlo(5_000_000, 250_000, 60_000_000, False, 950_000)  # type: ignore[arg-type]
    assert slo.unavailable == PPM - 999_500
    assert slo.between_failures == 7 * 86_400_000_000
    assert slo.rates == Prices(core_hour=0.1)
    assert slo.sets == ("process", "host", ("Clean", "Split"))


def test_python_says_the_same() -> None:
    slo = Slo(recovery="5s", wrong="1%", wrong_for="1min", exactly_once=["Invoices"], score_at_least={"Alerts": "95%"})
    assert slo.of("Invoices") == SinkSlo(5_000_000, 10_000, 60_000_000, True)  # type: ignore[arg-type]
    assert slo.of("Alerts").score_at_least == 950_000
    slo.check(shop(), ["Alerts"])
    with pytest.raises(UsageError, match="score_at_least of Alerts needs the function of its score"):
        slo.check(shop())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[default]\nrecover = "5s"', "default: unknown key 'recover'"),
        ("[defaults]", "unknown key 'defaults'"),
        ('[default]\nwrong = "101%"', "default.wrong = '101%': write a share"),
        ("[default]\nwrong = 1.5", "default.wrong = 1.5: write a share"),
        ("[default]\nwrong = true", "default.wrong = True: write a share"),
        ('[default]\nwrong = "few"', "default.wrong = 'few': write a share"),
        ('[default]\nrecovery = "5"', "default.recovery = '5': write a time"),
        ("[default]\nrecovery = 5", "default.recovery = 5: write a time"),
        ('[default]\nrecovery = "0s"', "default.recovery = '0s': write a time"),
        ('[default]\nexactly_once = "yes"', "exactly_once = 'yes': write true"),
        ('[sinks.A]\nexactly_once = "yes"', "sinks.A.exactly_once = 'yes': write true or false"),
        ("[default]\nscore_at_least = {A = 1}", "default.score_at_least is for all sinks"),
        ("[sinks]\nA = 1", "sinks.A = 1: write a table"),
        ('[sinks.A]\nmtbf = "1d"', "sinks.A: unknown key 'mtbf'"),
        ('[failures]\nmtbf = "x"', "failures.mtbf = 'x': write a time"),
        ('[failures]\navailability = "200%"', "failures.availability = '200%': write a share"),
        ('[failures]\ntogether = "host"', "failures.together = 'host': write a list"),
        ('[failures]\ntogether = ["rack"]', "'rack' is not one of them"),
        ('[failures]\ntogether = [["A"]]', "lists of two or more operators"),
        ("[prices]\ncore_hour = -1", "prices.core_hour = -1: write a number"),
        ("[prices]\ncores = 1", "prices: unknown key 'cores'"),
        ("default = 1", "default = 1: write a table"),
        ("[default", "cannot read objectives"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert says in str(caught.value)
    assert "slo.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[sinks.Invoice]\nexactly_once = true", "sinks.Invoice: shop has no such sink; its sinks are Invoices"),
        ('[default]\nwrong = "1%"\n[failures]\ntogether = [["Clean", "Splat"]]', "shop has no operator Splat"),
        ('[failures]\nmtbf = "7d"', "asks for nothing"),
    ],
)
def test_it_must_fit_the_app(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read(tmp_path, text).check(shop())
