"""The scripts in examples/ run as they stand, use the public API only, and print what they say they print."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED = {
    "clicks.py": [
        r"PerMinute +\w+ +\d+ +\d+\.\d+ +checkpoint",
        r"killed, without the plan: [1-9][\d,]* tuples lost",
        r"killed, with the plan: 0 tuples lost, 190 rows",
    ],
}


def test_every_example_is_tried():
    assert set(EXPECTED) == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_uses_the_public_api_only(name):
    for node in ast.walk(ast.parse((EXAMPLES / name).read_text())):
        imported = [node.module] if isinstance(node, ast.ImportFrom) else []
        imported += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not [module for module in imported if module and module.startswith("riprap.")]


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_runs(name, tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, tmp_path / "out"], capture_output=True, text=True, cwd=tmp_path, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for line in EXPECTED[name]:
        assert re.search(line, done.stdout), done.stdout
