"""The documentation is about this tree: paths, names, options, links and the table of packages."""

import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import typer
from tests.docs.pages import PAGES, ROOT, code_spans, commands, prose
from tests.repo.test_imports import LAYERS

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
TOP = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
# A path of the repository, or of a package of `src`: `src/riprap/cli`, `tests/repo`, `graph/reach.py`.
PATH = re.compile(rf"(?:{TOP})/[\w./*-]+|[\w-]+(?:/[\w-]+)*/[\w-]+\.py|riprap(?:_papers)?(?:/[\w-]+)+/?")
WRITTEN = {"out"}  # what commands write
OTHERS = {"riprap.conf", "riprap.run", "riprap.carry"}  # a file, a TLS name and a key of metadata


@each_page
def test_paths_exist(page):
    for number, span in code_spans(page):
        if PATH.fullmatch(span) and span.split("/")[0] not in WRITTEN:
            places = (ROOT, ROOT / "src", ROOT / "src" / "riprap", ROOT / "src" / "riprap_papers")
            assert any(list(place.glob(span.rstrip("/"))) for place in places), (
                f"{page}:{number}: {span} does not exist"
            )


@each_page
def test_names_exist(page):
    """`riprap.package.module.name` can be imported, and `riprap.package.name(...)` too."""
    for number, span in code_spans(page):
        name = re.fullmatch(r"(riprap(?:_papers)?(?:\.\w+)+)(?:\(.*\))?", span)
        if name and span not in OTHERS:
            assert resolves(name[1]), f"{page}:{number}: there is no {name[1]}"


def resolves(name: str) -> bool:
    module, *rest = name.split(".")
    subject = import_module(module)
    for part in rest:
        if not hasattr(subject, part):
            try:
                import_module(f"{subject.__name__}.{part}")
            except (ImportError, AttributeError):
                return False
        subject = getattr(subject, part)
    return True


@cache
def options() -> dict[str, set[str]]:
    from riprap.cli.commands import app

    known: dict[str, set[str]] = {}

    def add(name: str, command: object) -> None:
        for child, subcommand in getattr(command, "commands", {}).items():
            add(f"{name} {child}".strip(), subcommand)
        known[name] = {option for one in command.params for option in one.opts + one.secondary_opts} | {"--help"}

    add("", typer.main.get_command(app))
    return known


@each_page
def test_commands_and_options_exist(page):
    for number, text in commands(page):
        words = re.sub(r"[\[\]…,;:).|]", " ", text).split()[1:]
        if not words or words[0].startswith("-") or words[0].isupper():
            continue
        name = " ".join(words[:2]) if " ".join(words[:2]) in options() else words[0]
        assert name in options(), f"{page}:{number}: there is no command riprap {name}"
        used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text))
        assert used <= options()[name], f"{page}:{number}: riprap {name} has no {sorted(used - options()[name])}"


@each_page
def test_links_lead_somewhere(page):
    for number, line in prose(page):
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)(#[^)\s]*)?\)", line):
            path = (page.parent / target) if target else page
            assert path.exists(), f"{page}:{number}: {target} does not exist"
            if anchor and path.suffix == ".md":
                assert anchor[1:] in anchors(path), f"{page}:{number}: {target}{anchor} has no such heading"


def anchors(page: Path) -> set[str]:
    titles = [line.lstrip("#").strip() for _, line in prose(page) if line.startswith("#")]
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip()) for title in titles}


@each_page
def test_lines_wrap_at_100_columns(page):
    for number, line in prose(page):
        exempt = line.lstrip().startswith(("|", "#", "![", "<!--")) or " " not in line.strip()
        assert exempt or len(line) <= 100, f"{page}:{number} has {len(line)} columns"


def test_the_table_of_packages_is_the_tree():
    text = (ROOT / "docs" / "internals" / "architecture.md").read_text()
    assert re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE) == [*LAYERS, "riprap_papers"]


def test_every_page_is_in_the_site():
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text())
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    generated = {"reference/commands.md", "reference/api.md"}
    assert set(listed) - generated == pages


def test_the_changelog_is_short_and_versions_agree():
    import tomllib

    import riprap

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert riprap.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.split(r"^## ", changelog, flags=re.MULTILINE)[1]
    assert newest.startswith(version)
    assert len(newest.splitlines()) <= 60
