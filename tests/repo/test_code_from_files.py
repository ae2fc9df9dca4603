"""Nothing is executed from files: whatever lies in a directory that a user points at, reading it runs none of it.

Formats are Arrow, Parquet, JSON, TOML and plain arrays. What can run code from bytes is banned in src, with the few
exceptions listed here, each with the reason why no file of a user gets there.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"

MODULES = {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "runpy", "code", "codeop", "imp"}
CALLS = re.compile(
    r"^(eval|exec|compile|__import__|builtins\.(eval|exec|compile)|importlib\.(import_module|reload)"
    r"|(importlib\.)?(util\.)?(spec_from_file_location|module_from_spec)|(\w+\.)?loader\.exec_module"
    r"|sys\.path\.insert|(np|numpy)\.(load|lib\.format\.read_array)|(pd|pandas)\.read_pickle|yaml\.(load|unsafe_load))$"
)
SAFE_KEYWORD = "allow_pickle"  # np.load(…, allow_pickle=False) reads arrays and nothing else

ALLOWED = {
    "riprap/engine/compiling.py": "runs text that it wrote itself, compiled in the user's own cache directory",
    "riprap/expressions/column_functions.py": "runs text that it generated; no text of an expression is in it",
    "riprap/testing/checker.py": "copies batches and states in memory; reads no file",
    "riprap/san/compiled.py": "imports what it generated itself, from the user's own cache directory",
    "riprap/apps/catalogue.py": "imports the module that the user names as the app, and no file does",
    "riprap/spark/jobs/scripts.py": "runs the script that the user names as the app, as spark-submit would",
}


def offences(text: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        found += [f"line {node.lineno}: import {name}" for name in names if name.split(".")[0] in MODULES]
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            safe = any(
                word.arg == SAFE_KEYWORD and isinstance(word.value, ast.Constant) and word.value.value is False
                for word in node.keywords
            )
            if CALLS.match(name) and not safe:
                found.append(f"line {node.lineno}: {name}()")
        if isinstance(node, ast.List) and node.elts and dotted(node.elts[0]) == "sys.executable":
            second = node.elts[1] if len(node.elts) > 1 else None
            if not (isinstance(second, ast.Constant) and second.value == "-P"):
                found.append(f"line {node.lineno}: a Python whose working directory is first on its path; give it -P")
    return found


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_no_code_comes_from_files():
    found = {str(path.relative_to(SRC)): offences(path.read_text()) for path in SRC.rglob("*.py")}
    wrong = {path: lines for path, lines in found.items() if lines and path not in ALLOWED}
    assert not wrong, f"use Arrow, Parquet, JSON or arrays without objects: {wrong}"
    idle = [path for path in ALLOWED if not found.get(path)]
    assert not idle, f"these need no exception: {idle}"


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from pickle import loads", "import marshal as m", "eval('1')", "np.load(path)",
        "np.load(path, allow_pickle=True)", "importlib.util.spec_from_file_location('a', path)",
        "from importlib.util import x\nspec_from_file_location('a', path)", "pd.read_pickle(path)",
        "sys.path.insert(0, here)", "Popen([sys.executable, '-m', 'x'])", "run([sys.executable])",
    ],
)  # fmt: skip
def test_the_ban_can_fail(text):
    assert offences(text)


def test_what_is_needed_is_not_banned():
    assert not offences(
        "np.load(path, mmap_mode='r', allow_pickle=False)\nre.compile('x')\ndata.eval()\n[sys.executable, '-P']"
    )
