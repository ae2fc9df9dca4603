"""A process with a Spark session of its own that plays scenes: functions of a directory, and of what else they take.

    with player("run_scenes.py", directory, master) as play: play("a_scene")

The script calls `main(scenes)` of this file, which reads lines of JSON, a name and arguments each, and answers each
with a line of JSON, null or the traceback of what failed.
"""

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src"
_ANSWER = "scene: "


def environment() -> dict[str, str]:
    """For processes, and their Spark workers, that import riprap, the modules of this directory and `tests`."""
    paths = [
        str(HERE),
        str(SOURCES),
        str(HERE.parents[1]),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def player(script: str, directory: Path, *arguments: str) -> Iterator[Callable[..., None]]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / script), str(directory), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
        start_new_session=True,
    )

    def play(scene: str, *arguments: object) -> None:
        process.stdin.write(json.dumps([scene, *map(str, arguments)]) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith(_ANSWER):
                error = json.loads(line.removeprefix(_ANSWER))
                assert error is None, error
                return
        pytest.fail(f"the process ended in {scene}")

    try:
        yield play
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=300)
        finally:
            process.kill()
            process.stdout.close()


def main(scenes: Mapping[str, Callable[..., None]]) -> None:
    directory = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what scenes print is no answer
    for number, line in enumerate(sys.stdin):
        error = None
        scene, *arguments = json.loads(line)
        place = directory / f"{number}-{scene}"
        place.mkdir()
        try:
            scenes[scene](place, *arguments)
        except BaseException:
            error = traceback.format_exc()
        print(_ANSWER + json.dumps(error), file=answers, flush=True)
