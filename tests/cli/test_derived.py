"""Options that are spelled once: keywords, flags, help, and how messages name them."""

import inspect

import pytest
from tests.cli.refusals import ended, no_spark

import riprap
from riprap.api.prove_options import ProveOptions
from riprap.api.run_options import ResumeOptions, RunOptions
from riprap.base.errors import UsageError
from riprap.base.options import flags, made
from riprap.cli.commands import app
from riprap.graph.builder import App

__all__ = ["no_spark"]


def parameters(name):
    import typer

    return {each.name: each for each in typer.main.get_command(app).commands[name].params}


@pytest.mark.parametrize(("name", "options"), [("run", RunOptions), ("prove", ProveOptions)])
def test_every_option_is_a_flag_and_a_keyword(name, options):
    shown, keywords = parameters(name), inspect.signature(getattr(riprap, name)).parameters
    for field, (flag, _) in flags(options).items():
        assert shown[field].help == flag.help
        assert (flag.name or f"--{field}") in shown[field].opts
        assert field in keywords


def test_a_resumed_run_takes_what_may_change():
    assert set(flags(ResumeOptions)) <= set(inspect.signature(riprap.resume).parameters)
    assert "protocol" not in inspect.signature(riprap.resume).parameters


def test_an_unknown_option_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"option protocl does not exist: .* mean protocol"):
        made(RunOptions, {"protocl": "hybrid"})


def test_a_message_names_the_parameter_in_python_and_the_flag_on_the_command_line(no_spark, tmp_path):
    shop = App("shop")
    shop.source("S", "x long").sink("T")
    with pytest.raises(UsageError, match=r"^`stability=soon`: expected one of async"):
        riprap.run(shop, {"S": "none.parquet"}, out=tmp_path / "run", stability="soon")
    code, err = ended("run", "bargain-discovery", "--stability", "soon")
    assert code == 2
    assert "--stability soon: expected one of async" in err
    code, err = ended("run", "bargain-discovery", "--for", "0s")
    assert code == 2
    assert "--for: 0s: write a time longer than 0s" in err
