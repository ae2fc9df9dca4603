"""The size of classes and functions in `runtime/`: at most 12 attributes, and 8 parameters.

The exceptions are listed with their numbers, which may only fall: whoever takes one apart lowers or removes its line.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

RUNTIME = Path(__file__).parents[2] / "src" / "riprap" / "runtime"
ATTRIBUTES, PARAMETERS = 12, 8

LARGE = {
    "coordination/client.py Client": 22,
    "coordination/coordinator.py Coordinator": 24,
    "coordination/coordinator.py Coordinator.__init__": 10,
    "coordination/coordinator.py Coordinator._took": 10,
    "coordination/roster.py _Entry": 20,
    "coordination/roster.py PeStatus": 13,
    "element/cuts.py Cuts.__init__": 11,
    "element/cycle_member.py CycleMember": 15,
    "element/element.py Element": 29,
    "element/element.py Element.__init__": 16,
    "element/element_inputs.py InputChannel": 30,
    "element/element_inputs.py Inputs": 14,
    "element/element_inputs.py Inputs.__init__": 12,
    "element/element_outputs.py Outputs": 14,
    "element/element_outputs.py Outputs.__init__": 15,
    "element/records.py Records": 22,
    "element/restore.py Restore.__init__": 9,
    "feed.py Feed": 18,
    "logs.py LogFollower.__init__": 9,
    "planned.py planned_layout": 13,
    "process.py _Process": 27,
    "run_context.py Run": 15,
    "transport/inlets.py _Connection": 15,
    "transport/inlets.py Inlets": 15,
    "transport/inlets.py Inlets.__init__": 11,
    "transport/outlets.py _Channel": 19,
    "transport/outlets.py Outlets": 14,
    "transport/transport.py Transport.__init__": 10,
    "transport/wire_frame.py pack_fields": 10,
}


def sizes(source: str) -> Iterator[tuple[str, int, int]]:
    """Each class and function: its name, its number of attributes or parameters, and the limit."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            own = {item.target.id for item in node.body if isinstance(item, ast.AnnAssign | ast.AugAssign)
                   and isinstance(item.target, ast.Name)}  # fmt: skip
            for inner in ast.walk(node):
                stored = isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
                if stored and isinstance(inner.value, ast.Name) and inner.value.id == "self":
                    own.add(inner.attr)
            yield node.name, len(own), ATTRIBUTES
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    yield f"{node.name}.{method.name}", _parameters(method), PARAMETERS
        elif isinstance(node, ast.Module):
            for function in node.body:
                if isinstance(function, ast.FunctionDef):
                    yield function.name, _parameters(function), PARAMETERS


def _parameters(function: ast.FunctionDef) -> int:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def large(source: str) -> dict[str, int]:
    return {name: size for name, size, limit in sizes(source) if size > limit}


def test_no_class_grows_beyond_the_limits():
    found = {}
    for path in RUNTIME.rglob("*.py"):
        found |= {f"{path.relative_to(RUNTIME)} {name}": size for name, size in large(path.read_text()).items()}
    grown = {place: size for place, size in found.items() if size > LARGE.get(place, 0)}
    assert not grown, f"more than {ATTRIBUTES} attributes or {PARAMETERS} parameters: give a part of it its own class"
    assert {place: size for place, size in LARGE.items() if found.get(place) != size} == {}, "lower these numbers"


def test_the_limits_can_be_broken():
    attributes = "\n".join(f"        self.a{n} = {n}" for n in range(13))
    assert large(f"class A:\n    def __init__(self):\n{attributes}") == {"A": 13}
    assert large(f"def f({', '.join(f'a{n}' for n in range(9))}): pass") == {"f": 9}
