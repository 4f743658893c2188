"""Where the strings of a JSON text stand, and where each of their characters is spelled.

The text is one that `json.loads` has accepted, so that nothing here checks its grammar.
"""

import json
import re

from serl.agent.spans import Span

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
# One character of a string: a surrogate pair, one code unit, a short escape, or itself.
_CHARACTER = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.",
                        re.DOTALL)


def string_values(text: str) -> dict[tuple[str | None, ...], Span]:
    """Characters between the quotes of each string that is a value, by its path of keys; of equal keys the last.

    >>> string_values('{"name": "f", "arguments": {"code": "x"}}')
    {('name',): (10, 11), ('arguments', 'code'): (37, 38)}
    """
    found: dict[tuple[str | None, ...], Span] = {}
    path: list[str | None] = []
    key: str | None = None
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in "{[":
            path.append(key)
            key = None
        elif token in "}]":
            key = path.pop()
        elif text[match.end():].lstrip().startswith(":"):
            key = json.loads(token, strict=False)
        else:
            found[(*path[1:], key)] = (match.start() + 1, match.end() - 1)
    return found


def character_starts(spelled: str) -> list[int]:
    r"""Where each character of a JSON string begins in what stands between its quotes, and the length of all.

    >>> character_starts(r'a\n\u00e9"')
    [0, 1, 3, 9, 10]
    """
    return [*(match.start() for match in _CHARACTER.finditer(spelled)), len(spelled)]
