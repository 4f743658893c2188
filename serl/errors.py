"""The errors that the whole package shares."""

from grounding.errors import InputError

__all__ = ["InputError"]
