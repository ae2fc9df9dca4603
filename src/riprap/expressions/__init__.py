"""SQL expression strings: parse, type-check against a schema, evaluate on Arrow record batches.

    gain = bind(parse("size * (vwap - price)"), schema)
    gain.evaluate(batch)                                   # a pyarrow.Array
    bind(parse("type = 'TRADE'"), schema).selection(batch) # the rows for which it is true

docs/reference/expressions.md defines the language: Spark's SQL in ANSI mode, with Spark's types and functions.
"""

from riprap.base.errors import ExpressionError
from riprap.expressions.ast import Expression
from riprap.expressions.binding import Bound, bind
from riprap.expressions.parser import parse, parse_named

__all__ = ["Bound", "Expression", "ExpressionError", "bind", "parse", "parse_named"]
