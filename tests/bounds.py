"""`make bounds`: the tests of every compiled function that reads or writes arrays, with Numba's bounds checking on.

Compiled functions do not check indices: one that is out of bounds reads or writes whatever lies there, and a test that
compares results may never see it. With NUMBA_BOUNDSCHECK=1 it is an IndexError. The machine code is another, so that
run has caches of its own (NUMBA_CACHE_DIR; those of generated code are every run's own).

A run with that setting fails where a function of the sources that uses an index was not called by any test of it:
whoever adds one adds its test here. A negative index, which counts from the end in Python and in compiled functions, is
an error too unless it is written as a number: one that was computed is a slip that lands in somebody else's row.
"""

import ast
import json
import os
import sys
from pathlib import Path

SETTING = "NUMBA_BOUNDSCHECK"
SOURCES = Path(__file__).parents[1] / "src"
COMPILED = {"njit", "kernel", "_compiled", "_inlined"}  # what the decorators of compiled functions are called
TESTS = (
    "tests/operators",
    "tests/faults",
    "tests/expressions/test_expression_values.py",
    "tests/expressions/test_expression_written.py",
    "tests/planner/test_compiled.py",
    "tests/san/test_samplers.py",
    "tests/san/test_accelerated.py",
    "tests/apps/test_market.py",
    "tests/papers/workloads/test_queries.py",
    "tests/continuous",
)


def declared() -> set[str]:
    """Compiled functions of the sources that use an index, as `module.function`."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if _is_compiled(node) and any(isinstance(part, ast.Subscript) for part in ast.walk(node)):
                found.add(f"{module}.{node.name}")
    return found


def _is_compiled(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any(_name(each) in COMPILED for each in node.decorator_list)


def _name(decorator: ast.expr) -> str:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    return decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")


def called() -> set[str]:
    """Those that this process has compiled, or loaded, to call them."""
    from numba.core.dispatcher import Dispatcher

    from riprap.expressions.lazy_functions import LazyFunction

    found = set()
    for name, module in list(sys.modules.items()):
        if name.startswith(("riprap.", "riprap_papers.")):
            for value in list(vars(module).values()):
                if isinstance(value, Dispatcher) and value.overloads:
                    found.add(f"{value.py_func.__module__}.{value.py_func.__name__}")
                elif isinstance(value, LazyFunction) and "compiled" in vars(value):
                    found.add(f"{value.plain.__module__}.{value.plain.__name__}")
    return found


def is_on() -> bool:
    return os.environ.get(SETTING) == "1" and os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"


def begin() -> None:
    """In a process of a run with bounds checked, before anything is compiled."""
    if not is_on():
        return
    from llvmlite import ir
    from numba import types
    from numba.np import arrayobj

    lenient = arrayobj.fix_integer_index

    def strict(context, builder, type_, index, size):
        if isinstance(index, ir.Constant):
            return lenient(context, builder, type_, index, size)
        return context.cast(builder, index, type_, types.intp)  # where it is negative, the check of bounds finds it

    arrayobj.fix_integer_index = strict


def note(place: Path, worker: str) -> None:
    """What a process called, for the one that began the run."""
    if is_on():
        (place / f"{worker}.called").write_text(json.dumps(sorted(called())))


def never_called(place: Path) -> list[str]:
    """Functions that no process of the run called."""
    seen: set[str] = set()
    for path in place.glob("*.called"):
        seen |= set(json.loads(path.read_text()))
    return sorted(declared() - seen)


if __name__ == "__main__":
    print(*TESTS)
