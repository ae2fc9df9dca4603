"""Data flows downward, imports point upward: a package imports only packages listed above it."""

import ast
from pathlib import Path

import pytest

import riprap

SRC = Path(__file__).parents[2] / "src" / "riprap"

# The order of docs/internals/architecture.md, top to bottom.
LAYERS = [
    "base", "expressions", "graph", "operators", "engine", "streams", "checkpoints", "records", "protocols",
    "replication", "runtime", "faults", "san", "planner", "proof", "testing", "spark", "apps", "report", "api", "cli",
]  # fmt: skip


def packages() -> list[str]:
    return sorted(path.name for path in SRC.iterdir() if path.is_dir() and path.name != "__pycache__")


def imported_modules(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_no_package_has_the_name_of_something_that_users_import():
    """Who imports the package sets it in place of the name."""
    assert not {path.stem for path in SRC.iterdir()} & set(riprap.__all__)


def test_every_package_has_a_layer():
    assert set(packages()) <= set(LAYERS)


@pytest.mark.parametrize("package", packages())
def test_imports_point_upward(package):
    allowed = set(LAYERS[: LAYERS.index(package) + 1])
    for path in (SRC / package).rglob("*.py"):
        for module in imported_modules(path):
            parts = module.split(".")
            if parts[0] == "riprap" and len(parts) > 1 and parts[1] in LAYERS:
                assert parts[1] in allowed, f"{path.relative_to(SRC)} imports riprap.{parts[1]}, which is below it"


@pytest.mark.parametrize("package", [name for name in packages() if name not in ("spark", "cli")])
def test_only_spark_imports_pyspark(package):
    for path in (SRC / package).rglob("*.py"):
        assert not any(module.split(".")[0] == "pyspark" for module in imported_modules(path)), path
