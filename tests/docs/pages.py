"""Finds the documentation's pages, and the snippets and names in them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]  # fmt: skip
# Above a snippet: it is compiled and its imports are resolved, but it is not run.
COMPILED_ONLY = re.compile(r"<!-- compiled only: .+ -->")


@dataclass(frozen=True)
class Snippet:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    runs: bool

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def snippets(page: Path, language: str) -> list[Snippet]:
    """The page's fenced blocks of one language, in order."""
    found, start, previous = [], None, ""
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines):
        if start is None and line.startswith("```"):
            start, info, runs = number, line[3:].strip(), not COMPILED_ONLY.fullmatch(previous)
        elif start is not None and line.startswith("```"):
            if info == language:
                found.append(Snippet(page, start + 2, info, "\n".join(lines[start + 1 : number]) + "\n", runs))
            start = None
        if line.strip():
            previous = line.strip()
    return found


def prose(page: Path) -> list[tuple[int, str]]:
    """The lines outside of fenced and indented code, with their numbers."""
    lines, fenced = [], False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            lines.append((number, line))
    return lines


def code_spans(page: Path) -> list[tuple[int, str]]:
    """What stands in single backticks, with the line's number."""
    return [(number, span) for number, line in prose(page) for span in re.findall(r"`([^`]+)`", line)]


def commands(page: Path) -> list[tuple[int, str]]:
    """Lines that start with `riprap `, in code blocks and in backticks; continuation lines are joined."""
    found = [(number, span) for number, span in code_spans(page) if span.startswith("riprap ")]
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if re.match(r"(    +|\$ )riprap [a-z]", line):
            text, at = line.strip(" $"), number
            while text.endswith("\\"):
                text, at = text[:-1] + lines[at].strip(), at + 1
            found.append((number, text.split("  #")[0].split("   ")[0]))
    return found
