"""The same commit passes or fails the same way every time: what property tests get follows from their text alone."""

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import settings
from tests import order

ROOT = Path(__file__).parents[2]

DRAWS = """
import hashlib, sys
{imports}
from hypothesis import given, strategies as st
from tests import profiles
profiles.register()
seen = hashlib.sha256()

@given(st.integers(), st.floats(), st.text(), st.randoms(), st.sets(st.text(), max_size=4))
def draw(number, real, text, chance, some):
    seen.update(repr((number, real, text, chance.random(), sorted(some))).encode())

draw()
print(seen.hexdigest())
"""


def drawn(imports: str, hash_seed: str, home: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", DRAWS.format(imports=imports)]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_depend_neither_on_the_process_nor_on_what_it_has_imported(tmp_path):
    bare = drawn("", "1", tmp_path)
    assert bare == drawn("import riprap.graph.builder, tests.operators.reference", "2", tmp_path)
    assert not list(tmp_path.glob(".hypothesis/examples")), "nothing is remembered"


def test_every_property_test_inherits_the_profile(request):
    """A test may ask for more examples, but not for examples of its own choosing."""
    profile = settings.default
    for item in request.session.items:
        inner = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
        if inner is not None:
            found = (inner.derandomize, inner.database, inner.phases)
            assert found == (profile.derandomize, profile.database, profile.phases), item.nodeid


def test_the_order_of_files_names_files_that_exist():
    assert [path for path in order.LONGEST if not (ROOT / path).exists()] == []
