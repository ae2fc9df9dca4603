"""A process with a Spark session of its own that plays scenes, which are functions of one argument, a directory.

    with player("run_scenes.py", directory, master) as play: play("a_scene")

The script calls `main(scenes)` of this file, which reads names, a line each, and answers each with a line of JSON, null
or the traceback of what failed.
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
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that lives for seconds starts sooner so
_ANSWER = "scene: "


def environment() -> dict[str, str]:
    """For processes, and their Spark workers, that import riprap and the modules of this directory."""
    paths = [str(HERE), str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAVA_TOOL_OPTIONS": QUICK}


@contextmanager
def player(script: str, directory: Path, *arguments: str) -> Iterator[Callable[[str], None]]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / script), str(directory), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
        start_new_session=True,
    )

    def play(scene: str) -> None:
        process.stdin.write(f"{scene}\n")
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
            process.wait(timeout=60)
        finally:
            process.kill()
            process.stdout.close()


def main(scenes: Mapping[str, Callable[[Path], None]]) -> None:
    directory = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what scenes print is no answer
    for number, line in enumerate(sys.stdin):
        error = None
        place = directory / f"{number}-{line.strip()}"
        place.mkdir()
        try:
            scenes[line.strip()](place)
        except BaseException:
            error = traceback.format_exc()
        print(_ANSWER + json.dumps(error), file=answers, flush=True)
