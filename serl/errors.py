"""The errors that the whole package shares."""

import signal

from grounding.errors import InputError

__all__ = ["InputError", "Stopped", "WorkFailed", "first_line"]


class WorkFailed(Exception):
    """The work cannot go on, and the input is not to blame: one line, why and what to do (exit code 1)."""


class Stopped(KeyboardInterrupt):
    """A signal told the work to leave, and it has: one line, where it goes on (exit code 128 + the signal's number)."""

    def __init__(self, number: int, why: str = "") -> None:
        super().__init__(f"{signal.Signals(number).name}{why and ': '}{why}")
        self.number = number

    @property
    def code(self) -> int:
        return 128 + self.number


def first_line(error: BaseException) -> str:
    """What another library says of its error, in a line; the error's kind where it says nothing.

    >>> first_line(ValueError("no such key\\nTraceback ...")), first_line(TimeoutError())
    ('no such key', 'TimeoutError')
    """
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
