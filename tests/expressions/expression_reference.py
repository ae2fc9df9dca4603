"""What an expression means, one row at a time, in plain Python. Shares no code with the implementation.

A tree is a tuple: ("column", name), ("literal", value), (operator, argument, …). `sql` writes it, `value` computes it.
Python's None is NULL; timestamps are integers (µs), told from numbers by how a tree uses them.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Impossible(Exception):
    """The row has no value: the implementation must report an error."""


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def sql(tree) -> str:
    match tree:
        case ("column", name):
            return name
        case ("literal", None):
            return "NULL"
        case ("literal", bool(value)):
            return "TRUE" if value else "FALSE"
        case ("literal", str(text)):
            return quoted(text)
        case ("literal", value):
            return repr(value)
        case ("timestamp", micros):
            return f"TIMESTAMP '{(EPOCH + timedelta(microseconds=micros)).strftime('%Y-%m-%d %H:%M:%S.%f')}'"
        case ("interval", micros):
            return f"INTERVAL {micros} MICROSECONDS"
        case ("negate" | "not" as name, operand):
            return f"({'-' if name == 'negate' else 'NOT '} {sql(operand)})"
        case ("is null", operand):
            return f"({sql(operand)} IS NULL)"
        case ("in", operand, *choices):
            return f"({sql(operand)} IN ({', '.join(map(sql, choices))}))"
        case ("between", operand, low, high):
            return f"({sql(operand)} BETWEEN {sql(low)} AND {sql(high)})"
        case ("case", *branches, default):
            whens = " ".join(f"WHEN {sql(a)} THEN {sql(b)}" for a, b in zip(branches[::2], branches[1::2], strict=True))
            return f"(CASE {whens} ELSE {sql(default)} END)"
        case ("cast", operand, target):
            return f"CAST({sql(operand)} AS {target})"
        case (
            ("round" | "substring" | "like" | "startswith" | "rlike" | "regexp_extract" | "regexp_replace") as name,
            operand,
            *fixed,
        ):
            texts = [quoted(part) if isinstance(part, str) else str(part) for part in fixed]
            if name == "like":
                return f"({sql(operand)} LIKE {texts[0]})"
            return f"{name}({', '.join([sql(operand), *texts])})"
        case (name, *operands) if name.isalpha() and name not in ("and", "or"):
            return f"{name}({', '.join(map(sql, operands))})"
        case (name, left, right):
            return f"({sql(left)} {name} {sql(right)})"
    raise AssertionError(tree)


def parts(tree):
    """Every subtree, the tree itself included."""
    yield tree
    for part in tree[1:]:
        if isinstance(part, tuple):
            yield from parts(part)


def value(tree, row):
    match tree:
        case ("column", name):
            return row[name]
        case ("literal" | "timestamp" | "interval", constant):
            return constant
        case ("and" | "or" as name, *operands):
            decisive = name == "or"
            values = [value(operand, row) for operand in operands]
            return decisive if decisive in values else None if None in values else not decisive
        case ("is null", operand):
            return value(operand, row) is None
        case ("isnan", operand):
            operand = value(operand, row)
            return operand is not None and math.isnan(operand)
        case ("in", operand, *choices):
            return value(("or", *[("=", operand, choice) for choice in choices]), row)
        case ("between", operand, low, high):
            return value(("and", (">=", operand, low), ("<=", operand, high)), row)
        case ("case", *branches, default):
            for condition, result in zip(branches[::2], branches[1::2], strict=True):
                if value(condition, row) is True:
                    return value(result, row)
            return value(default, row)
        case ("coalesce", *choices):
            return next((found for choice in choices if (found := value(choice, row)) is not None), None)
        case ("nullif", left, right):
            return None if value(("=", left, right), row) is True else value(left, row)
        case ("least" | "greatest" as name, *operands):
            found = [found for operand in operands if (found := value(operand, row)) is not None]
            pick = min if name == "least" else max
            return pick(found, key=lambda x: (isinstance(x, float) and math.isnan(x), x)) if found else None
        case (name, *operands):
            fixed = [value(part, row) if isinstance(part, tuple) else part for part in operands]
            return None if any(part is None for part in fixed) else strict(name, *fixed)
    raise AssertionError(tree)


def strict(name, first, *rest):
    """Functions that are NULL whenever an argument is."""
    if name in ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"):
        (second,) = rest
        if isinstance(first, float) or isinstance(second, float):
            first, second = float(first), float(second)
        return binary(name, first, second)
    match name:
        case "negate":
            return whole(-first) if isinstance(first, int) else -first
        case "abs":
            return whole(abs(first)) if isinstance(first, int) else abs(first)
        case "not":
            return not first
        case "floor" | "ceil":
            if isinstance(first, int) or not math.isfinite(first):
                return first
            return float(math.floor(first) if name == "floor" else math.ceil(first))
        case "round":
            return rounded(first, *rest)
        case "sqrt":
            return math.nan if first < 0 else math.sqrt(first)
        case "length":
            return len(first)
        case "upper" | "lower" | "trim":
            return {"upper": first.upper(), "lower": first.lower(), "trim": first.strip(" ")}[name]
        case "concat":
            return first + "".join(rest)
        case "substring":
            return substring(first, *rest)
        case "startswith":
            return first.startswith(rest[0])
        case "like":
            return like(first, rest[0])
        case "rlike":
            return re.search(rest[0], first) is not None
        case "regexp_extract":
            found = re.search(rest[0], first)
            return (found.group(rest[1]) or "") if found else ""
        case "regexp_replace":
            return re.sub(rest[0], lambda found: replaced(rest[1], found), first)
        case "cast":
            return cast(first, rest[0])
        case "year" | "month" | "day" | "hour" | "minute" | "second":
            return getattr(EPOCH + timedelta(microseconds=first), name)
    raise AssertionError(name)


def binary(name, first, second):
    match name:
        case "=":
            return first == second
        case "<>":
            return first != second
        case "<":
            return first < second
        case "<=":
            return first <= second
        case ">":
            return first > second
        case ">=":
            return first >= second
        case "+":
            return whole(first + second)
        case "-":
            return whole(first - second)
        case "*":
            return whole(first * second)
    if second == 0:
        return None
    if name == "/":
        return float(first) / float(second)
    if isinstance(first, int):
        return int(math.copysign(1, first)) * (abs(first) % abs(second))
    return math.fmod(first, second) if math.isfinite(first) else math.nan


def whole(number):
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise Impossible
    return number


def rounded(number, decimals):
    if isinstance(number, int) or not math.isfinite(number):
        return number
    scaled = number * 10.0**decimals
    if abs(scaled) >= 2.0**52:
        return number
    return float(Decimal(scaled).quantize(Decimal(1), ROUND_HALF_UP)) / 10.0**decimals


def substring(text, position, count=None):
    """Walks the positions: 1 is the first character, -1 the last, 0 is read as 1."""
    first = position if position > 0 else 1 if position == 0 else len(text) + 1 + position
    last = len(text) if count is None else first + count - 1
    return "".join(text[place - 1] for place in range(max(first, 1), min(last, len(text)) + 1))


def like(text, pattern):
    regex, characters = "", iter(pattern)
    for character in characters:
        if character == "\\":
            regex += re.escape(next(characters))
        else:
            regex += {"%": ".*", "_": "."}.get(character, re.escape(character))
    return re.fullmatch(regex, text, re.DOTALL) is not None


def replaced(text, found):
    """A replacement for one match: `$1` is a group, a backslash takes the next character as it is."""
    out, characters = "", iter(text)
    for character in characters:
        if character == "\\":
            out += next(characters)
        elif character == "$":
            out += found.group(int(next(characters))) or ""
        else:
            out += character
    return out


RANGES = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


def cast(first, target):
    if target in RANGES:
        if isinstance(first, float) and not math.isfinite(first):
            raise Impossible
        number = int(first)
        if not -(2 ** (RANGES[target] - 1)) <= number < 2 ** (RANGES[target] - 1):
            raise Impossible
        return number
    return {"DOUBLE": float, "BOOLEAN": bool, "STRING": str}[target](first)
