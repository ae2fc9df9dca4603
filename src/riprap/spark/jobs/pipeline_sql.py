"""Statements of a pipeline's SQL files: CREATE STREAMING TABLE, MATERIALIZED VIEW, TEMPORARY VIEW and FLOW."""

import re
from dataclasses import dataclass
from pathlib import Path

from riprap.base.errors import UsageError
from riprap.spark.jobs.user_lines import UserLine

_NAME = r"(?P<name>(?:`[^`]+`|\w+)(?:\.(?:`[^`]+`|\w+))*)"
_CREATE = re.compile(
    rf"CREATE\s+(?:OR\s+(?:REFRESH|REPLACE)\s+)?(?P<kind>STREAMING\s+TABLE|MATERIALIZED\s+VIEW|TEMP(?:ORARY)?\s+VIEW)\s+"
    rf"(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}\b(?P<rest>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_FLOW = re.compile(
    rf"CREATE\s+FLOW\s+\S+\s+(?:COMMENT\s+'[^']*'\s+)?AS\s+INSERT\s+INTO\s+(?:ONCE\s+)?{_NAME}\s+"
    r"(?:BY\s+NAME\s+)?(?P<query>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_QUERY = re.compile(r"\bAS\s+(?P<query>(?:SELECT|WITH|FROM|VALUES|\().*)$", re.IGNORECASE | re.DOTALL)
_KINDS = {"STREAMING": "streaming table", "MATERIALIZED": "materialized view", "TEMPORARY": "view", "TEMP": "view"}


@dataclass(frozen=True)
class PipelineStatement:
    name: str
    kind: str  # as in `PipelineTable`, or "flow" for one that writes into a table of that name
    query: str  # "" for a table that flows fill
    place: UserLine


def read_statements(file: Path, text: str | None = None) -> list[PipelineStatement]:
    whole = file.read_text("utf-8") if text is None else text
    found = []
    for line, statement in _split(whole):
        place = UserLine(str(file), line)
        create, flow = _CREATE.match(statement), _FLOW.match(statement)
        if flow is not None:
            found.append(PipelineStatement(flow["name"].replace("`", ""), "flow", flow["query"], place))
        elif create is not None:
            query = _QUERY.search(create["rest"])
            kind = _KINDS[create["kind"].split()[0].upper()]
            found.append(
                PipelineStatement(create["name"].replace("`", ""), kind, query["query"] if query else "", place)
            )
        elif not re.match(r"(SET|USE)\b", statement, re.IGNORECASE):
            raise UsageError(
                f"{place}: {' '.join(statement.split())[:60]!r} is no statement of a pipeline; write CREATE STREAMING "
                "TABLE, CREATE MATERIALIZED VIEW, CREATE TEMPORARY VIEW or CREATE FLOW"
            )
    return found


def _split(text: str) -> list[tuple[int, str]]:
    """Statements without comments, each with the number of its first line."""
    pieces = re.findall(r"--[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|;|.", text, re.DOTALL)
    found: list[tuple[int, str]] = []
    line, start, current = 1, 1, ""
    for piece in [*pieces, ";"]:
        if piece == ";":
            if current.strip():
                found.append((start, current.strip()))
            current = ""
        elif piece.startswith(("--", "/*")):
            current += "\n" * piece.count("\n")
        else:
            if not current.strip() and piece.strip():
                start = line
            current += piece
        line += piece.count("\n")
    return found
