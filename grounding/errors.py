"""The error that a user can act on."""


class InputError(ValueError):
    """Wrong input from outside: one line that says what is wrong, where, and what to do. Commands exit with 2."""
