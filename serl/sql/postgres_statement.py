"""Cutting SQL text into statements the way PostgreSQL's own lexer does (standard_conforming_strings on).

As statement.py does for SQLite: the text is never changed, and no text makes this fail. What differs:
comments nest, strings may be dollar-quoted or have escapes, and a semicolon inside any of them ends nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Unclosed strings run to the end of the text. E'...' goes on in the next line with the same escapes. All that is not
# ASCII belongs to names, be it a dash or a space.
_TOKEN = re.compile(
    r"""
      (?P<space>   [\ \t\n\r\f\v]+ | --[^\n\r]* )
    | (?P<comment> /\* )
    | (?P<quoted>  [eE]'(?:[^'\\]|\\.|'')*'?(?:[\ \t]*[\n\r]\s*'(?:[^'\\]|\\.|'')*'?)*
                 | '[^']*'?
                 | "[^"]*"? )
    | (?P<dollar>  \$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$ )
    | (?P<word>    [A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]* )
    | (?P<number>  \d[\w.]* )
    | (?P<symbol>  . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def tokens(sql: str) -> Iterator[tuple[str, int, int]]:
    """(kind, start, end) of every token but spaces and comments; kinds are the groups of _TOKEN."""
    position = 0
    while token := _TOKEN.match(sql, position):
        kind, start, position = token.lastgroup, token.start(), token.end()
        if kind == "comment":
            position = _comment_end(sql, position)
            continue
        if kind == "dollar":
            close = sql.find(token.group(), position)
            position = len(sql) if close < 0 else close + len(token.group())
        if kind != "space":
            yield kind, start, position


def split(sql: str) -> list[str]:
    """The statements of `sql`, each without its semicolon; none for blank or commented-out text.

    >>> split("SELECT $$;$$ /* ; /* ; */ */; SELECT 2")
    ['SELECT $$;$$', 'SELECT 2']
    """
    statements = []
    first = last = None
    for _, start, end in tokens(sql):
        if sql[start:end] == ";":
            if first is not None:
                statements.append(sql[first:last])
            first = None
            continue
        first = start if first is None else first
        last = end
    if first is not None:
        statements.append(sql[first:last])
    return statements


def first_word(sql: str) -> str:
    """The keyword that a statement begins with, in capitals, behind any parentheses; "" where there is none."""
    for kind, start, end in tokens(sql):
        if sql[start:end] != "(":
            return sql[start:end].upper() if kind == "word" else ""
    return ""


def _comment_end(sql: str, position: int) -> int:
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(sql, position)):
        depth += 1 if edge.group() == "/*" else -1
        position = edge.end()
    return position if not depth else len(sql)
