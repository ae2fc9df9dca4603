"""Every snippet of the documentation is valid. Snippets of Python run, page by page, unless they are marked."""

import ast
import json
import os
import tomllib
from importlib import import_module

import pyarrow as pa
import pytest
from tests.docs.pages import PAGES, ROOT, snippets
from tests.docs.test_pages import resolves

from riprap.graph.plan_file import parse_plan

PYTHON = [one for page in PAGES for one in snippets(page, "python")]


@pytest.mark.parametrize("snippet", PYTHON, ids=str)
def test_python_compiles_and_its_names_exist(snippet):
    for node in ast.walk(ast.parse(snippet.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0].startswith("riprap"):
            for alias in node.names:
                assert resolves(f"{node.module}.{alias.name}"), f"{snippet}: there is no {node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                import_module(alias.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "riprap":
            assert resolves(f"riprap.{node.attr}"), f"{snippet}: there is no riprap.{node.attr}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(one.runs for one in snippets(page, "python"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)  # fmt: skip
def test_python_runs(page, tmp_path, monkeypatch):
    """The snippets of a page share their names, and have those that the text around them introduces."""
    monkeypatch.chdir(tmp_path)
    names = introduced()
    for snippet in snippets(page, "python"):
        if snippet.runs:
            exec(compile(snippet.text, str(snippet), "exec"), names)
            for name, value in list(names.items()):
                if name.startswith("test_") and callable(value):
                    value()
                    del names[name]
    assert os.getcwd() == str(tmp_path)


def introduced() -> dict:
    """An app with a stream of trades, and a batch of them."""
    from riprap import App

    app = App("test")
    batch = pa.record_batch(
        {
            "ticker": ["A", "B", "A", "B"], "size": pa.array([1, 2, 3, 4], pa.int64()), "price": [1.0, 2.0, 3.0, 4.0],
            "type": ["TRADE"] * 4, "vwap": [2.0] * 4, "_ts": pa.array([1, 2, 3, 4], pa.timestamp("us", "UTC")),
            "_seq": pa.array([0, 1, 2, 3], pa.int64()),
        }
    )  # fmt: skip
    trades = app.source("Trades", "ticker string, size long, price double")
    return {"__name__": "snippet", "app": app, "trades": trades, "batch": batch, "schema": batch.schema}


@pytest.mark.parametrize("snippet", [one for page in PAGES for one in snippets(page, "toml")], ids=str)
def test_toml_is_toml_and_plans_are_plans(snippet):
    data = tomllib.loads(snippet.text)
    if data.keys() & {"operators", "ha_groups", "replication"}:
        parse_plan(snippet.text if "app" in data else f'app = "app"\n{snippet.text}')


@pytest.mark.parametrize("snippet", [one for page in PAGES for one in snippets(page, "json")], ids=str)
def test_json_is_json(snippet):
    json.loads(snippet.text)


def test_a_broken_name_is_noticed():
    assert not resolves("riprap.no_such_name")
    assert not resolves("riprap.api.run.no_such_name")
