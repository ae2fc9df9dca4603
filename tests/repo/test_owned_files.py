"""Files in directories that we own are opened by `riprap/base/files.py`, which follows no symbolic links.

Where a package or a module works in such directories, whatever opens, changes or removes a file by its name is banned.
"""

import ast
import re
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "riprap"

WORK_THERE = [
    "streams", "checkpoints", "records", "runtime", "faults", "proof", "replication", "base/owner.py",
    "spark/campaign_job.py", "spark/element_tasks.py", "spark/running.py", "spark/plan_campaign.py",
    "spark/plan_runs.py", "spark/source_recorder.py", "planner/assessment_file.py",
    "api",
]  # fmt: skip
ALLOWED = {
    "runtime/tls.py": "reads what a program wrote to a temporary directory that only the user can enter",
    "runtime/spending.py": "reads /proc",
    "proof/fault_kinds.py": "lists /proc",
}
OURS = {"files", "own"}  # the module, as it is imported
CALLS = re.compile(
    r"^(open|io\.open|os\.(open|rename|replace|unlink|remove|truncate|link|symlink|mkdir|makedirs|rmdir|listdir|scandir)"
    r"|shutil\.\w+|(pa|pyarrow)\.(OSFile|memory_map|output_stream|input_stream)|(np|numpy)\.(load|memmap|fromfile))$"
)
METHODS = {
    "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "rename", "mkdir", "rmdir", "touch", "symlink_to",
    "hardlink_to", "chmod",
}  # fmt: skip


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def offences(text: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name, called = dotted(node.func), node.func
        path_method = isinstance(called, ast.Attribute) and called.attr in METHODS and dotted(called.value) not in OURS
        if CALLS.match(name) or path_method:
            found.append(f"line {node.lineno}: {name or getattr(called, 'attr', '')}()")
    return found


def modules() -> list[Path]:
    places = [SRC / each for each in WORK_THERE]
    assert all(place.exists() for place in places)
    return [path for place in places for path in (place.rglob("*.py") if place.is_dir() else [place])]


def test_one_module_opens_files_in_directories_that_we_own():
    found = {str(path.relative_to(SRC)): offences(path.read_text()) for path in modules()}
    wrong = {path: lines for path, lines in found.items() if lines and path not in ALLOWED}
    assert not wrong, f"use riprap.base.files: {wrong}"
    idle = [path for path in ALLOWED if not found.get(path)]
    assert not idle, f"these need no exception: {idle}"


def test_temporary_files_are_where_the_next_command_finds_them():
    """What a killed process leaves in a scratch directory goes with the next command; anything else stays for ever."""
    users = {
        str(path.relative_to(SRC))
        for path in SRC.rglob("*.py")
        if re.search(r"^\s*(import|from) tempfile", path.read_text(), re.M)
    }
    assert users == {"base/scratch.py", "san/compiled.py"}  # the latter in the user's cache


@pytest.mark.parametrize(
    "text",
    [
        "open(path, 'a')", "os.open(path, os.O_RDWR)", "(directory / 'summary.json').write_text(text)",
        "path.unlink(missing_ok=True)", "pa.OSFile(str(path), 'wb')", "pa.memory_map(str(path))", "shutil.rmtree(path)",
        "os.truncate(spare, 3)", "np.load(path, mmap_mode='r', allow_pickle=False)", "path.parent.mkdir()",
    ],
)  # fmt: skip
def test_the_ban_can_fail(text):
    assert offences(text)


def test_what_is_needed_is_not_banned():
    assert not offences("files.write_text(path, text)\nown.unlink(path)\nstream.open(name)\ntext.replace('a', 'b')")
