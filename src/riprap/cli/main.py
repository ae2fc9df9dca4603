"""`riprap`: runs a command and turns its end into one clear line and an exit code.

    0    done
    1-3  a `RiprapError`: one sentence, and the exit code of its class (`riprap.base.errors`)
    2    invalid arguments, and paths that do not lead where they should
    3    what the system refuses (a full disk, no permission), and a JVM that has died
    130  Ctrl-C or SIGTERM, at any time; both let a command stop its work and clean up

Any other exception is a bug of ours and is shown with its traceback. Modules load inside `main`: an interrupt during
an import would show a traceback from the middle of a library, so it ends the process at once.
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
_PATH_ERRORS = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EEXIST, errno.EINVAL}
_SYSTEM_ERRORS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.EMFILE, errno.EFBIG}
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from riprap.cli.commands import app

    return app


def main() -> None:
    """Entry point."""
    # A signal that is ignored, as under nohup, stays ignored.
    handled = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, lambda number, frame: os._exit(INTERRUPTED))
    from riprap.base.processes import distrust_working_directory

    distrust_working_directory()
    from riprap.base.errors import RiprapError
    from riprap.base.scratch import sweep
    from riprap.cli.commands import app

    for number in handled:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else _terminated)
    _escape_log_messages()
    sweep()
    try:
        sys.exit(app(prog_name="riprap", standalone_mode=False))
    except RiprapError as error:
        _end(str(error), error.exit_code)
    except KeyboardInterrupt:
        _end("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if hasattr(error, "format_message"):  # an exception of the argument parser
            _end_usage_error(error)
        if _jvm_gone(error):
            _end("Spark's JVM has died: it was killed or ran out of memory; run the same command again", 3)
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            _end("the disk is full: free space and run the same command again", 3)
        if isinstance(error, OSError) and error.errno in _PATH_ERRORS | _SYSTEM_ERRORS and error.filename is not None:
            code = 2 if error.errno in _PATH_ERRORS else 3
            _end(f"cannot use {os.fsdecode(error.filename)}: {error.strerror}", code)
        raise
    finally:
        if signal.SIGTERM in handled:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the caller of `main` may go on


def _terminated(number: int, frame: object) -> NoReturn:
    """Acts like Ctrl-C; a second SIGTERM ends the process at once."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt


def _escape_log_messages() -> None:
    """Escape control characters in log messages that no handler takes: they go to the terminal and may quote files."""
    from riprap.base.errors import harmless

    class Escaped(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return harmless(super().format(record))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Escaped("%(message)s"))


def _end_usage_error(error: Any) -> NoReturn:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(2)
    command = context.command_path if context is not None else "riprap"
    _end(f"{error.format_message().rstrip('.')}; see {command} --help", 2)


def _jvm_gone(error: Exception) -> bool:
    """Whether a call to Spark failed because its JVM is gone; the module that knows is loaded only with Spark."""
    session = sys.modules.get("riprap.spark.session")
    return session is not None and isinstance(error, session.JVM_GONE)


def _end(sentence: str, code: int) -> NoReturn:
    from riprap.base.errors import as_sentence, harmless

    # A failed check may show several lines: the traceback of an operator, a list of damage.
    print("riprap:", harmless(sentence) if code == 1 else as_sentence(sentence), file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, or that of this file
    main()
