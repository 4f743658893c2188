"""SQL text → its words with their kind, and for each token of the policy the word that it writes.

    keyword      SELECT, GROUP BY, NULL; names of functions and types too: the language's words, not the schema's
    identifier   tables, columns, aliases, quoted or not
    literal      strings, numbers, blobs
    operator     = || ( , . and the like
    other        white space, comments, and whatever a token holds outside of SQL

The words are those of sqlglot's SQLite tokenizer; which of them are keywords says the list below, since sqlglot
types `date` or `text` as if they could not be columns. A text that ends inside quotes is read as if they were closed.
A text that the tokenizer refuses all the same has no words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from sqlglot import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

from serl.hindsight.credit.tokens import byte_offsets


class TokenKind(IntEnum):
    """Where a token holds as many bytes of several words, the one of the higher kind counts."""

    OTHER = 0
    OPERATOR = 1
    KEYWORD = 2
    LITERAL = 3
    IDENTIFIER = 4


@dataclass(frozen=True)
class Lexeme:
    """One word of an SQL text: its bytes [start, end), and its text without quotes, in lower case."""

    kind: TokenKind
    start: int
    end: int
    text: str


# SQLite's keywords that a query may hold (sqlite.org/lang_keywords.html), without those of other statements.
KEYWORDS = frozenset("""
    ALL AND AS ASC BETWEEN BY CASE CAST COLLATE CROSS CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DESC DISTINCT
    ELSE END ESCAPE EXCEPT EXCLUDE EXISTS FILTER FIRST FOLLOWING FROM FULL GLOB GROUP HAVING IN INDEXED INNER INTERSECT
    IS ISNULL JOIN LAST LEFT LIKE LIMIT MATCH MATERIALIZED NATURAL NO NOT NOTNULL NULL NULLS OFFSET ON OR ORDER OTHERS
    OUTER OVER PARTITION PRECEDING RANGE RECURSIVE REGEXP RIGHT ROW ROWS SELECT THEN TIES UNBOUNDED UNION USING VALUES
    WHEN WHERE WINDOW WITH TRUE FALSE
""".split())
_LITERALS = frozenset({TokenType.STRING, TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING})
_CLOSERS = ("", "'", '"', "`", "]", "*/")


@lru_cache(maxsize=4096)
def lexemes(sql: str) -> tuple[Lexeme, ...]:
    """The words of `sql` in order.

    >>> [(each.kind.name, each.text) for each in lexemes('SELECT "Order Date"')]
    [('KEYWORD', 'select'), ('IDENTIFIER', 'order date')]
    """
    tokens = _tokenize(sql)
    offsets, found, in_cast = byte_offsets(sql), [], _cast_types(sql, tokens)
    for place, token in enumerate(tokens):
        end = min(token.end + 1, len(sql))  # a quote that was missing lies behind the end
        kind = TokenKind.KEYWORD if place in in_cast else _kind(sql, tokens, place)
        quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        text = token.text if quoted else sql[token.start:end]
        found.append(Lexeme(kind, offsets[token.start], offsets[end], text.lower()))
    return tuple(found)


def lexemes_of_tokens(lengths: Sequence[int], words: Sequence[Lexeme], offset: int) -> list[Lexeme | None]:
    """For each token the word that holds most of its bytes; None if it holds bytes of none.

    `lengths` are the tokens' bytes; the SQL begins `offset` bytes behind the beginning of the first token.
    """
    found: list[Lexeme | None] = []
    start, first = -offset, 0
    for length in lengths:
        end = start + length
        while first < len(words) and words[first].end <= start:
            first += 1
        best, most = None, (0, TokenKind.OTHER)
        for word in words[first:]:
            if word.start >= end:
                break
            overlap = min(end, word.end) - max(start, word.start), word.kind
            if overlap[0] > 0 and overlap > most:
                best, most = word, overlap
        found.append(best)
        start = end
    return found


def _tokenize(sql: str) -> list:
    dialect = Dialect.get_or_raise("sqlite")
    for closer in _CLOSERS:
        try:
            return dialect.tokenize(sql + closer)
        except TokenError:
            continue
    return []


def _kind(sql: str, tokens: list, place: int) -> TokenKind:
    token = tokens[place]
    if token.token_type in _LITERALS:
        return TokenKind.LITERAL
    if token.token_type is TokenType.IDENTIFIER:
        return TokenKind.IDENTIFIER
    text = sql[token.start: token.end + 1]
    if not any(character.isalnum() or character == "_" for character in text):
        return TokenKind.OPERATOR
    before = tokens[place - 1].token_type if place else None
    after = tokens[place + 1].token_type if place + 1 < len(tokens) else None
    if TokenType.DOT in (before, after):
        return TokenKind.IDENTIFIER
    if after is TokenType.L_PAREN or all(word in KEYWORDS for word in text.upper().split()):
        return TokenKind.KEYWORD  # a name before a parenthesis is a function's
    return TokenKind.IDENTIFIER


def _cast_types(sql: str, tokens: list) -> set[int]:
    """Places of the words behind AS in CAST(... AS REAL): names of types."""
    places: set[int] = set()
    opened: list[str] = []  # of each open parenthesis: "cast" before its AS, "type" behind it, "" for all others
    for place, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            before = tokens[place - 1] if place else None
            opened.append("cast" if before and sql[before.start: before.end + 1].upper() == "CAST" else "")
        elif token.token_type is TokenType.R_PAREN:
            opened[-1:] = []
        elif opened and opened[-1] == "type" and sql[token.start].isalpha():
            places.add(place)
        elif opened and opened[-1] == "cast" and token.token_type is TokenType.ALIAS:
            opened[-1] = "type"
    return places
