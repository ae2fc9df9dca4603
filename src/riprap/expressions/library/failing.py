"""Functions that fail on purpose."""

from riprap.expressions.signatures import function
from riprap.expressions.typed import EvaluationError

_FAMILY = "other"


@function("assert_true(boolean, [string]) -> void", _FAMILY, nulls=True)
def assert_true(condition: bool | None, message: str | None = None) -> None:
    if not condition:
        raise EvaluationError(message or "ASSERT_TRUE: the condition is not true")


@function("raise_error(string) -> string", _FAMILY, nulls=True)
def raise_error(message: str | None) -> None:
    raise EvaluationError(message or "RAISE_ERROR without a message")


function("current_timezone() -> string", _FAMILY)(lambda: "UTC")
