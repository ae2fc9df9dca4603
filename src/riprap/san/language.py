"""The language of gates, rates and rewards: a subset of Python's syntax over place and parameter names.

An expression yields a number:   `queue > 0 and crew.free == 1`,   `rate * min(queue, 3)`
A program changes markings:      `queue -= 1; busy = 1`            `if queue > 9: lost += 1`

Names may have dots (`crew.free` is one place). Markings are integers: assigned values are truncated towards zero. Reads
and writes are derived from the text, so the compiler knows what an activity can affect.
"""

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from riprap.base.errors import UsageError

FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "floor": math.floor, "sqrt": math.sqrt}

_BINARY: dict[type, Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_COMPARE: dict[type, Callable[[float, float], bool]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Code:
    """A checked text of the language. `reads` and `writes`: the names in it, of places and parameters."""

    text: str
    reads: frozenset[str]
    writes: frozenset[str]

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)


@lru_cache(maxsize=65536)
def expression(text: str) -> Code:
    """Parse a text that yields a number."""
    tree = _parse(text)
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        raise UsageError(f"{text!r} is not an expression: write an expression such as 'queue > 0'")
    return _checked(text, tree)


@lru_cache(maxsize=65536)
def program(text: str) -> Code:
    """Parse a text that changes markings."""
    tree = _parse(text)
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Expr):
            raise UsageError(f"{text!r} changes no marking: write assignments, as in 'queue -= 1; busy = 1'")
    return _checked(text, tree)


def dotted(node: ast.expr) -> str:
    """`a.b.c` from its syntax tree; raises `UsageError` for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    raise UsageError(f"{ast.unparse(node)!r} is not a name: write place names such as queue or crew.free")


def evaluate(code: Code, values: Mapping[str, float]) -> float:
    """The value of an expression; `values` has every name that it reads."""
    statement = code.tree.body[0]
    assert isinstance(statement, ast.Expr)
    return _value(statement.value, values)


def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise UsageError(f"cannot read {text!r} ({error.msg}): gates and rewards use Python's operators") from error


def _checked(text: str, tree: ast.Module) -> Code:
    reads: set[str] = set()
    writes: set[str] = set()
    for statement in tree.body:
        _check_statement(text, statement, reads, writes)
    return Code(text, frozenset(reads), frozenset(writes))


def _check_statement(text: str, node: ast.stmt, reads: set[str], writes: set[str]) -> None:
    match node:
        case ast.Expr(value=value):
            _check(text, value, reads)
        case ast.Assign(targets=[target], value=value):
            writes.add(dotted(target))
            _check(text, value, reads)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in _BINARY:
            writes.add(dotted(target))
            reads.add(dotted(target))
            _check(text, value, reads)
        case ast.If(test=test, body=body, orelse=orelse):
            _check(text, test, reads)
            for inner in (*body, *orelse):
                _check_statement(text, inner, reads, writes)
        case ast.Pass():
            pass
        case _:
            raise UsageError(f"{text!r} uses {type(node).__name__}: only assignments and if are allowed here")


def _check(text: str, node: ast.expr, reads: set[str]) -> None:
    match node:
        case ast.Constant(value=int() | float() | bool()):
            pass
        case ast.Name() | ast.Attribute():
            reads.add(dotted(node))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            _check(text, left, reads)
            _check(text, right, reads)
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            _check(text, operand, reads)
        case ast.BoolOp(values=values):
            for value in values:
                _check(text, value, reads)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            _check(text, left, reads)
            _check(text, right, reads)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            for part in (test, body, orelse):
                _check(text, part, reads)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            for argument in args:
                _check(text, argument, reads)
        case _:
            raise UsageError(
                f"{text!r} uses {ast.unparse(node)!r}: only numbers, names, + - * / // %, single comparisons, "
                f"and/or/not, x if c else y and {', '.join(FUNCTIONS)} are allowed here"
            )


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=value):
            return value  # type: ignore[return-value]
        case ast.Name() | ast.Attribute():
            return values[dotted(node)]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, values), _value(right, values))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values)
        case ast.UnaryOp(operand=operand):
            return not _value(operand, values)
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, values) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, values) for part in parts)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _COMPARE[type(op)](_value(left, values), _value(right, values))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, values) else orelse, values)
        case ast.Call(func=ast.Name(id=name), args=args):
            return FUNCTIONS[name](*(_value(argument, values) for argument in args))
    raise AssertionError(f"unchecked {ast.dump(node)}")
