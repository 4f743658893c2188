"""What a run says when it cannot go on: one line with the step, the reason and how to resume.

    a full disk            which file could not be written
    a signal               where the run left
    anything unforeseen    the exception; its traceback is in RUN/error.txt

Whatever it was, the newest checkpoint is whole and the run goes on from there.
"""

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from serl.errors import InputError, Stopped, WorkFailed
from serl.io import FULL

TRACE = "error.txt"


@contextmanager
def reported(folder: Path, where: Callable[[], str]) -> Iterator[None]:
    """Turn what ends a run into WorkFailed, or Stopped, that says `where` it was and what to do.

    An InputError passes as it is: it says what to change.
    """
    (folder / TRACE).unlink(missing_ok=True)
    resume = f"go on with `serl train --resume {folder}`"
    try:
        yield
    except Stopped as stop:
        raise Stopped(stop.number, f"left {folder} at {where()}; {resume}") from None
    except InputError:
        raise
    except WorkFailed as error:
        raise WorkFailed(f"{where()}: {error}; {resume}") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            reason = f"{error.filename or folder}: cannot be written ({error.strerror}); make room"
        else:
            reason = _unforeseen(folder, error)
        raise WorkFailed(f"{where()}: {reason}; {resume}") from error


def _unforeseen(folder: Path, error: Exception) -> str:
    """The exception in a line; the whole of it goes to a file, or to stderr where the disk is full too."""
    text = "".join(traceback.format_exception(error))
    line = " ".join(traceback.format_exception_only(error)[-1].split())
    try:
        (folder / TRACE).write_text(text, encoding="utf-8")
    except OSError:
        print(text, file=sys.stderr)
        return line
    return f"{line} (traceback in {folder / TRACE})"
