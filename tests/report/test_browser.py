"""Reports in a real browser: they render without errors, need no network, and show what they should."""

import shutil
import subprocess

import pytest

from riprap.apps import market, market_files

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--enable-logging=stderr", "--v=0",
]  # fmt: skip

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: reports are not opened in a browser"),
]


def opened(page, tmp_path, *arguments: str) -> subprocess.CompletedProcess:
    """Open a page with the network cut off; fails the test if its console has an error."""
    profile = tmp_path / "profile"
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    command = [CHROMIUM, *FLAGS, offline, f"--user-data-dir={profile}", *arguments, page.as_uri()]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    console = [line for line in process.stderr.splitlines() if ":CONSOLE" in line]
    assert not [line for line in console if "rror" in line], console
    return process


@pytest.fixture(scope="module")
def report(spark, tmp_path_factory):
    from riprap import assess

    place = tmp_path_factory.mktemp("assessed")
    path = place / "ticks.parquet"
    market_files.write(market.generate(40_000, seed=2), path)
    found = assess(
        "bargain-discovery", path, out=place / "out", offsets=[10_000, 20_000], outages=["1s", "4s"], reps=2, golden=4,
        section=1_000,
    )  # fmt: skip
    return found.report


def test_the_assessment_renders(report, tmp_path):
    assert report.stat().st_size < 3_000_000
    text = report.read_text()
    assert "http://" not in text.replace("http://www.w3.org/", "")
    assert "https://" not in text
    dom = opened(report, tmp_path, "--dump-dom").stdout
    for name in ("Source", "TradeFilter", "QuoteFilter", "VWAP", "BargainIndex"):
        assert name in dom
    assert dom.count("<svg") >= 1 + 3 * 5  # the graph, and three charts for each target
    assert "<title>" in dom.split("<svg", 1)[1]  # tooltips


@pytest.mark.parametrize("width", [390, 1200])
def test_the_assessment_can_be_looked_at(report, tmp_path, width):
    picture = tmp_path / "report.png"
    opened(report, tmp_path, f"--window-size={width},1600", f"--screenshot={picture}")
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 20_000  # not a blank page
