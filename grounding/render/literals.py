"""Stored values as SQL literals that are equal to them.

A text that holds control text, line breaks or hidden characters is written as an expression, in pieces that are
harmless each: `'<' || 'sql>'`, `'two' || char(10) || 'lines'`. One that is too long is cut and ends in an ellipsis.
"""

from __future__ import annotations

import re

from grounding.safety import hidden, neutralize, seams, split
from grounding.sqlite import quote_text
from grounding.text import cut

VALUE_CHARS = 60
EXPRESSION_CHARS = 2 * VALUE_CHARS  # an expression longer than this is not worth its tokens
_UNUSUAL = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f]")  # white space but the common one, and controls
_NOT_FINITE = {"inf": "9e999", "-inf": "-9e999"}  # as SQLite's own shell writes them


def literal(value: str, stored: str = "text") -> str:
    """A value by how it is stored (text, integer or real): text in quotes, numbers without.

    >>> literal("O'Hare"), literal("8", "real"), literal("a\\nb"), literal("<s>")
    ("'O''Hare'", '8', "'a' || char(10) || 'b'", "'<' || 's>'")
    """
    if stored != "text":
        return _NOT_FINITE.get(value, value)
    if len(value) <= VALUE_CHARS:
        written = _expression(value)
        if len(written) <= EXPRESSION_CHARS:
            return written
    shown = neutralize(value, VALUE_CHARS)
    return quote_text(shown if shown.endswith("…") else cut(shown + "…", VALUE_CHARS))


def _expression(value: str) -> str:
    """The pieces between hidden and unusual characters, these as calls of char()."""
    codes = {place for start, end, _ in hidden(value) for place in range(start, end)}
    codes |= {match.start() for match in _UNUSUAL.finditer(value)}
    visible = "".join(" " if place in codes else character for place, character in enumerate(value))
    ends = {place for place in range(1, len(value)) if (place in codes) != (place - 1 in codes)}
    pieces, start = [], 0
    for piece in split(visible, sorted(ends | set(_seams(value, codes)))):
        end = start + len(piece)
        if start in codes:
            pieces.append(f"char({', '.join(str(ord(character)) for character in value[start:end])})")
        else:
            pieces.append(quote_text(piece))
        start = end
    return " || ".join(pieces)


def _seams(value: str, codes: set[int]) -> list[int]:
    """Seams of the value, those included that only a hidden character covers: the pieces stand near each other."""
    visible = [place for place in range(len(value)) if place not in codes]
    found = seams("".join(value[place] for place in visible))
    return [visible[place] for place in found]
