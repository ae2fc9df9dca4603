"""The generated reference has every command, option and public name, each with a text."""

import re
from importlib.util import module_from_spec, spec_from_file_location

from tests.docs.pages import ROOT

import riprap


def reference():
    spec = spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_commands_and_their_options_are_explained():
    page = reference().commands()
    for name in reference().command_tree().commands:
        assert f"\n## riprap {name}\n" in page
    unexplained = re.findall(r"^\| `([^`]+)` \|  \|", page, re.MULTILINE)
    assert not unexplained, f"options without help: {unexplained}"


def test_public_names_are_explained():
    page = reference().api()
    for name in [*(f"riprap.{name}" for name in riprap.__all__), *reference().FUNCTIONS]:
        section = re.search(rf"### `{re.escape(name)}`\n(.*?)(?=\n### |\Z)", page, re.DOTALL)
        assert section, f"{name} is not on the page"
        assert re.sub(r"```.*?```", "", section[1], flags=re.DOTALL).strip(), f"{name} has no docstring"


def test_the_page_of_expressions_lists_the_functions_of_the_code():
    page = (ROOT / "docs" / "reference" / "expressions.md").read_text()
    assert reference().functions().strip() in page
