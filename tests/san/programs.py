"""Runs and renames texts of the language of networks, node by node."""

import ast
from collections.abc import Callable, MutableMapping

from riprap.san.language import _BINARY, FUNCTIONS, Code, _value, dotted


def execute(code: Code, values: MutableMapping[str, float]) -> None:
    """Run a program on `values`."""
    _run(code.tree.body, values)


def _run(statements: list[ast.stmt], values: MutableMapping[str, float]) -> None:
    for node in statements:
        match node:
            case ast.Assign(targets=[target], value=value):
                values[dotted(target)] = int(_value(value, values))
            case ast.AugAssign(target=target, op=op, value=value):
                name = dotted(target)
                values[name] = int(_BINARY[type(op)](values[name], _value(value, values)))
            case ast.If(test=test, body=body, orelse=orelse):
                _run(body if _value(test, values) else orelse, values)


def rename(code: Code, new_name: Callable[[str], str]) -> str:
    """The text of `code` with every name replaced."""

    class Renamer(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return node if node.id in FUNCTIONS else _name(new_name(node.id), node.ctx)

        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            return _name(new_name(dotted(node)), node.ctx)

    return ast.unparse(Renamer().visit(ast.parse(code.text)))


def _name(text: str, context: ast.expr_context) -> ast.expr:
    node = ast.parse(text, mode="eval").body
    node.ctx = context  # type: ignore[attr-defined]
    return node
