"""Tests of the repository itself: banned calls, machine paths, package registries, dead files."""

import ast
import re
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "riprap"

# Reading a clock or unseeded randomness makes a run unrepeatable; only these packages may do it.
FREE = {"base", "cli"}
BANNED = re.compile(
    r"^(time\.(time|time_ns|monotonic|monotonic_ns|perf_counter|perf_counter_ns|sleep)"
    r"|datetime\.(datetime\.)?(now|utcnow|today)|date\.today"
    r"|random\.\w+|np\.random\.(?!Generator|Philox)\w+|numpy\.random\.(?!Generator|Philox)\w+"
    r"|uuid\.uuid[14]|os\.urandom|secrets\.\w+)$"
)


def tracked(*patterns: str) -> list[Path]:
    """Files git knows or would add; outside a checkout, every file that is not generated."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [ROOT / line for line in listing.stdout.splitlines() if (ROOT / line).is_file()]


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_no_clock_and_no_global_randomness():
    found = []
    for path in SRC.rglob("*.py"):
        if path.relative_to(SRC).parts[0] in FREE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and BANNED.match(dotted(node)):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno} {dotted(node)}")
    assert not found, "take a Clock or a seeded generator from riprap.base instead: " + "; ".join(found)


def test_the_ban_can_fail():
    assert BANNED.match("time.time")
    assert BANNED.match("np.random.seed")
    assert not BANNED.match("np.random.Generator")


def test_no_machine_paths_and_no_package_registries():
    registry = re.compile(r"index-url|https?://[^ ]*/simple/?[\"' ]|\"resolved\": *\"http|registry *= *\"http")
    home = re.compile(r"/(?:home|root|Users)/[a-z]")
    for path in tracked():
        if path.name == Path(__file__).name or path.suffix in {".png", ".arrow", ".parquet"}:
            continue
        text = path.read_text(errors="ignore")
        assert not home.search(text), f"{path}: a path of one machine"
        assert not registry.search(text), f"{path}: an address of a package registry"


def test_no_dead_modules():
    """Every module is imported by another one, by a test, or is an entry point."""
    everything = "\n".join(
        path.read_text() for path in tracked("*.py", "pyproject.toml", "scripts/*") if path.is_file()
    )
    for path in SRC.rglob("*.py"):
        if path.name in {"__init__.py", "__main__.py"}:
            continue
        module = "riprap." + ".".join(path.relative_to(SRC).with_suffix("").parts)
        package, _, leaf = module.rpartition(".")
        used = (
            re.search(rf"{re.escape(module)}\b", everything)
            or re.search(rf"from {re.escape(package)} import [^\n]*\b{leaf}\b", everything)
            or re.search(rf"from {re.escape(package)} import \([^)]*\b{leaf}\b", everything)
        )
        assert used, f"{module} is imported nowhere"


def test_files_stay_small():
    """One idea a file: a file of more than 600 lines has more than one."""
    for path in SRC.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 600, path


def test_commands_print_no_markup_and_check_their_arguments():
    """Names of users would be taken for markup; and arguments are checked where `Commands` registers a command."""
    for path in (SRC / "cli").glob("*.py"):
        text = path.read_text()
        assert "[/]" not in text, f"{path}: the consoles take no markup; use style=, or rich.text.Text"
        if path.name != "arguments.py":
            assert "typer.Typer(" not in text, f"{path}: register commands through riprap.cli.arguments.Commands"


def test_no_two_test_files_share_a_name():
    """pytest imports them by their bare names: the second would not be run."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)


def test_decisions_have_numbers_of_their_own_and_links_lead_somewhere():
    """Branches that each add the next decision give two of them one number."""
    decisions = [path.name for path in (ROOT / "docs" / "internals" / "decisions").glob("*.md")]
    assert sorted(name[:4] for name in decisions) == [f"{at:04}" for at in range(1, len(decisions) + 1)]
    for path in tracked("*.md"):
        for link in re.findall(r"\]\(([^)#:\s]+\.md)[#)]", path.read_text()):
            assert (path.parent / link).is_file(), f"{path}: {link} is not there"


# What a command computes (api/), prints (cli/) and shows as a page (report/) has one name: that of the command.
LAYERS_OF_A_COMMAND = ("riprap/api/", "riprap/cli/", "riprap/report/")
SAME_IDEA = {  # a module of the product that a command is named after
    "graph": "riprap/graph/graph.py",
    "profile": "riprap/engine/profile.py",
    "stream": "riprap/streams/stream.py",
}


def test_no_public_name_has_two_meanings():
    classes, modules = defaultdict(list), defaultdict(list)
    for path in SRC.parent.rglob("*.py"):
        place = str(path.relative_to(SRC.parent))
        if path.name != "__init__.py" and not place.startswith(LAYERS_OF_A_COMMAND):
            modules[path.stem].append(place)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(place)
    for path in [path for layer in LAYERS_OF_A_COMMAND for path in (SRC.parent / layer).glob("*.py")]:
        others = [place for place in modules.get(path.stem, []) if place != SAME_IDEA.get(path.stem)]
        assert not others, f"{path} and {others} have one name"
    assert {name: places for name, places in [*classes.items(), *modules.items()] if len(places) > 1} == {}
