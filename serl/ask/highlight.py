"""SQL in colours for a terminal: keywords, strings, numbers, and comments; everything else as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grounding.sqlite import RESERVED
from serl.sql.statement import tokens

# Words that SQLite takes as names too, and that mean something where these queries have them.
KEYWORDS = RESERVED | frozenset("asc by cast desc end glob intersect like offset over partition recursive with".split())


def parts(sql: str) -> Iterator[tuple[str, str]]:
    """The text cut into (kind, piece): keyword, string, number, space (white space and comments), other.

    >>> list(parts("SELECT 'a'"))
    [('keyword', 'SELECT'), ('space', ' '), ('string', "'a'")]
    """
    end = 0
    for token in tokens(sql):
        if token.start() > end:
            yield "space", sql[end : token.start()]
        text, end = token.group(), token.end()
        if token.lastgroup == "word":
            yield "keyword" if text.lower() in KEYWORDS else "number" if text[0].isdigit() else "other", text
        else:
            yield "string" if text.startswith("'") else "other", text
    if end < len(sql):
        yield "space", sql[end:]


def highlight(sql: str, paint: Callable[[str, str], str]) -> str:
    """The text with every piece painted: `paint(kind, piece)`."""
    return "".join(paint(kind, piece) for kind, piece in parts(sql))
