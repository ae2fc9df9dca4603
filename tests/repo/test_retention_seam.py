"""The seam of retention: in `runtime/` only the package `retention` names a kind, and nothing names a protocol."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from riprap.protocols import registry
from riprap.protocols.channel import Retention
from riprap.runtime.retention.all_kinds import KINDS
from riprap.runtime.retention.kind import RetentionKind

RUNTIME = Path(__file__).parents[2] / "src" / "riprap" / "runtime"
PROTOCOLS = {"partial", *registry.REGISTRY} - {"recompute"}  # the word is also a kind of retention
# Modules of protocols that are no protocol: what elements, channels and directors share.
SHARED = {
    "channel", "channels", "commitment", "cut", "deadlines", "detector", "director", "events", "protocol",
    "recovery_line", "registry",
}  # fmt: skip


def texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """All texts but docstrings."""
    described = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr):
                described.add(id(first.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield node


def naming(source: str, names: set[str]) -> list[int]:
    return [node.lineno for node in texts(ast.parse(source)) if node.value in names]


def branching_on_classes(source: str) -> list[int]:
    """Calls of `isinstance` with an output channel or a kind of one retention."""
    own = {kind.output.__name__ for kind in KINDS.values()} | {type(kind).__name__ for kind in KINDS.values()}
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    asked = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "isinstance"]
    return [call.lineno for call in asked if own & {n.id for n in ast.walk(call.args[1]) if isinstance(n, ast.Name)}]


def outside() -> list[Path]:
    return [path for path in RUNTIME.rglob("*.py") if path.parent.name != "retention"]


def test_every_kind_has_one_object_and_one_file():
    assert set(KINDS) == set(get_args(Retention))
    assert len({type(kind).__module__ for kind in KINDS.values()}) == len(KINDS)
    for kind in KINDS.values():
        assert isinstance(kind, RetentionKind)
        assert kind.output.__module__ == type(kind).__module__  # its outgoing side is in the same file


def test_no_other_file_branches_on_a_kind():
    kinds = set(KINDS)
    found = {path.name: lines for path in outside() if (lines := naming(path.read_text(), kinds))}
    assert not found, "ask the object of the kind (`layout.kind(channel)`): give it what differs"
    found = {path.name: lines for path in outside() if (lines := branching_on_classes(path.read_text()))}
    assert not found


def test_no_protocol_is_named():
    for path in RUNTIME.rglob("*.py"):
        source = path.read_text()
        assert not naming(source, PROTOCOLS), path
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module == "riprap.protocols":
                assert {alias.name for alias in node.names} <= SHARED, path
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("riprap.protocols."):
                assert node.module.split(".")[2] in SHARED, f"{path} imports {node.module}"


def test_the_seam_can_be_broken():
    assert naming('"""hold"""\nif kind == "hold": pass', {"hold"}) == [2]
    assert naming('_GAPS = frozenset(("discard", "hold"))', {"hold"}) == [1]
    assert branching_on_classes("isinstance(output, LoggingOutput)") == [1]
