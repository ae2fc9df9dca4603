"""How Hypothesis looks for examples: the same ones every time, or new ones every time.

    repeatable   what `make test` uses: examples follow from the text of a test alone. Nothing is remembered from one
                 run to the next, and a failure is reported as it was met, without minutes of shrinking.
    soak         what `make soak` uses (--hypothesis-profile=soak): new examples in every run; failures are shrunk, and
                 a blob is printed that repeats them.

No deadlines and no check of speed in either: the machine may be busy.

One thing that Hypothesis draws from is taken away from the repeatable profile: the constants that it finds in the
sources of whatever modules this process happens to have imported. Which ones that are depends on the files that this
worker was given before.
"""

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

MORE = 4  # times the examples, where time does not matter


def examples(number: int) -> settings:
    """So many examples of a costly property in `make test`, and more of them in `make soak`."""
    return settings(max_examples=number if settings.default.derandomize else MORE * number)


def register() -> None:
    """Make both known, and use the repeatable one unless the command line says otherwise."""
    patient = settings(
        deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )
    settings.register_profile(
        "repeatable", patient, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
    )
    settings.register_profile("soak", patient, derandomize=False, database=None)
    settings.load_profile("repeatable")
    providers.is_local_module_file = _is_explored


def _is_explored(path: str, ask=providers.is_local_module_file) -> bool:
    """Whether constants in this source are drawn as examples."""
    return not settings.default.derandomize and ask(path)
