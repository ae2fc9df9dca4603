"""`riprap`: runs a command and turns what ends it into one clear line and an exit code.

    0    done
    1-3  a `RiprapError`: one sentence, and the code that `riprap.base.errors` gives to its kind
    130  Ctrl-C, from the first moment on

Anything else is a bug of ours and is shown with its traceback. Modules load inside `main`: to interrupt that would show
a traceback out of the middle of somebody's import, so it ends the process at once.
"""

import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from riprap.cli.commands import app

INTERRUPTED = 130

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from riprap.cli.commands import app

    return app


def main() -> None:
    """Entry point."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where it is ignored, as behind nohup
    if ours:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    from riprap.base.errors import RiprapError
    from riprap.cli.commands import app

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app()
    except RiprapError as error:
        _end(str(error), error.exit_code)
    except KeyboardInterrupt:
        _end("interrupted", INTERRUPTED)
    except Exception as error:
        if not _jvm_gone(error):
            raise
        _end("Spark's JVM has died, killed by somebody or for want of memory: give the same command again", 3)


def _jvm_gone(error: Exception) -> bool:
    """Only where Spark was started: the module that knows what its calls raise is loaded then."""
    session = sys.modules.get("riprap.spark.session")
    return session is not None and isinstance(error, session.JVM_GONE)


def _end(sentence: str, code: int) -> NoReturn:
    print(f"riprap: {sentence}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
