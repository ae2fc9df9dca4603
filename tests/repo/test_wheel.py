"""The wheel builds, has every module, and works in an environment that has only its dependencies."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment with the wheel, and the dependencies of the one that runs the tests."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        source.mkdir(exist_ok=True)
        copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    done(*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", place / "wheels", source)
    (wheel,) = (place / "wheels").glob("*.whl")
    done(sys.executable, "-m", "venv", "--without-pip", place / "empty")
    python = place / "empty" / "bin" / "python"
    done(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    packages = done(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "empty" / "bin", Path(packages)


def done(*command):
    ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, check=False, cwd="/")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_installed_command_knows_its_apps_and_plugins(installed):
    bin_, packages = installed
    found = done(bin_ / "python", "-c", "import riprap; print(riprap.__file__)").strip()
    assert Path(found).is_relative_to(packages)
    assert " reproduce " in done(bin_ / "riprap", "--help")
    assert "VWAP" in done(bin_ / "riprap", "graph", "bargain-discovery")
    assert "Count" in done(bin_ / "riprap", "graph", "wordcount")


def test_the_wheel_has_every_module_and_type_marker(installed):
    _, packages = installed
    for package in ("riprap", "riprap_papers", "pyspark_riprap"):
        expected = {path.relative_to(ROOT / "src") for path in (ROOT / "src" / package).rglob("*.py")}
        found = {path.relative_to(packages) for path in (packages / package).rglob("*.py")}
        assert found == expected
    assert (packages / "riprap" / "py.typed").exists()
