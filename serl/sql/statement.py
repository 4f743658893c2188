"""Cutting SQL text into statements and tokens the way SQLite's own tokenizer does.

A semicolon inside a string, a quoted name or a comment ends nothing. The text is never changed: a
statement is a slice of it. Unlike a parser, this cannot fail on any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# SQLite's tokens, as far as they matter here. '' and "" inside quotes need no rule of their own: they
# read as two strings side by side. Unclosed strings and comments run to the end of the text.
_TOKEN = re.compile(
    r"""
      (?P<space>   [\ \t\n\f\r\ufeff]+ | --[^\n]* | /\*(?:.*?\*/|.*) )
    | (?P<quoted>  '[^']*'? | "[^"]*"? | `[^`]*`? | \[[^\]]*\]? )
    | (?P<word>    [\w$]+ )
    | (?P<symbol>  . )
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(sql: str) -> Iterator[re.Match[str]]:
    """The tokens of `sql` without spaces and comments; `lastgroup` is quoted, word or symbol."""
    return (token for token in _TOKEN.finditer(sql) if token.lastgroup != "space")


def split(sql: str) -> list[str]:
    """The statements of `sql`, each without its semicolon; none for blank or commented-out text.

    >>> split("SELECT ';' -- first; only\\n ; ; SELECT 2")
    ["SELECT ';'", 'SELECT 2']
    """
    statements = []
    start = end = None
    for token in tokens(sql):
        if token.group() == ";":
            if start is not None:
                statements.append(sql[start:end])
            start = None
            continue
        start = token.start() if start is None else start
        end = token.end()
    if start is not None:
        statements.append(sql[start:end])
    return statements


_PAIRS = frozenset({"!=", "<>", "<=", ">=", "==", "||"})  # of symbols that mean nothing apart


def join_operators(sql: str) -> str:
    """The text without white space inside of operators of two characters, which SQLite would not read.

    >>> join_operators("SELECT a FROM t WHERE b > = 3 AND c ! = '! ='")
    "SELECT a FROM t WHERE b >= 3 AND c != '! ='"
    """
    found = list(tokens(sql))
    pieces, start = [], 0
    for left, right in zip(found, found[1:]):
        apart = sql[left.end():right.start()]
        if left.group() + right.group() in _PAIRS and apart.isspace():
            pieces.append(sql[start:left.end()])
            start = right.start()
    return "".join([*pieces, sql[start:]])
