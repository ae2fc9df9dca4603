"""`riprap`: runs a command and turns what ends it into one clear line and an exit code.

    0    done
    1-3  a `RiprapError`: one sentence, and the code that `riprap.base.errors` gives to its kind
    2    arguments that are no such, and paths that do not lead where they should
    3    what the system refuses (a full disk, no permission), and a JVM that has died
    130  Ctrl-C or SIGTERM, from the first moment on; both let a command end what it has begun and clear up

Anything else is a bug of ours and is shown with its traceback. Modules load inside `main`: to interrupt that would show
a traceback out of the middle of somebody's import, so it ends the process at once.
"""

import errno
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from riprap.cli.commands import app

INTERRUPTED = 130
_OF_PATHS = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EEXIST, errno.EINVAL}
_OF_SYSTEM = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.EMFILE, errno.EFBIG}
_FULL = {errno.ENOSPC, errno.EDQUOT}

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from riprap.cli.commands import app

    return app


def main() -> None:
    """Entry point."""
    # Not where one is ignored, as behind nohup.
    ours = [one for one in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(one) is not signal.SIG_IGN]
    for one in ours:
        signal.signal(one, lambda number, frame: os._exit(INTERRUPTED))
    from riprap.base.errors import RiprapError
    from riprap.base.processes import SAFE_PATH
    from riprap.base.scratch import sweep
    from riprap.cli.commands import app

    os.environ[SAFE_PATH] = "1"  # of all processes below this one
    for one in ours:
        signal.signal(one, signal.default_int_handler if one is signal.SIGINT else _terminated)
    _make_remarks_harmless()
    sweep()
    try:
        sys.exit(app(prog_name="riprap", standalone_mode=False))
    except RiprapError as error:
        _end(str(error), error.exit_code)
    except KeyboardInterrupt:
        _end("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if hasattr(error, "format_message"):  # of the library that parses arguments
            _misused(error)
        if _jvm_gone(error):
            _end("Spark's JVM has died, killed by somebody or for want of memory: give the same command again", 3)
        if isinstance(error, OSError) and error.errno in _FULL:
            _end("the disk is full: free space and give the same command again", 3)
        if isinstance(error, OSError) and error.errno in _OF_PATHS | _OF_SYSTEM and error.filename is not None:
            code = 2 if error.errno in _OF_PATHS else 3
            _end(f"cannot use {os.fsdecode(error.filename)}: {error.strerror}", code)
        raise
    finally:
        if signal.SIGTERM in ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # where `main` was called by something that goes on


def _terminated(number: int, frame: object) -> NoReturn:
    """The same as Ctrl-C; who is in a hurry sends it twice."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt


def _make_remarks_harmless() -> None:
    """What is logged, and handled by nobody, goes to the terminal as it is; strangers' words may be in it."""
    from riprap.base.errors import harmless

    class Remark(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return harmless(super().format(record))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Remark("%(message)s"))


def _misused(error: Any) -> NoReturn:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(2)
    command = context.command_path if context is not None else "riprap"
    _end(f"{error.format_message().rstrip('.')}; see {command} --help", 2)


def _jvm_gone(error: Exception) -> bool:
    """Only where Spark was started: the module that knows what its calls raise is loaded then."""
    session = sys.modules.get("riprap.spark.session")
    return session is not None and isinstance(error, session.JVM_GONE)


def _end(sentence: str, code: int) -> NoReturn:
    from riprap.base.errors import as_sentence, harmless

    # A check that failed may show more: the traceback of an operator, a list of damage.
    print("riprap:", harmless(sentence) if code == 1 else as_sentence(sentence), file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, or that of this file
    main()
