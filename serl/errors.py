"""The errors that the whole package shares."""

from grounding.errors import InputError

__all__ = ["InputError", "WorkFailed"]


class WorkFailed(Exception):
    """The work cannot go on, and the input is not to blame: one line, why and what to do (exit code 1)."""
