"""SQL text → sqlglot tree whose leaves know their tokens, or a typed reason why there is none.

sqlglot keeps the position of an identifier, a literal, a star and of most functions' names (`meta["start"]`,
`meta["end"]`, inclusive), not of keywords, operators, NULL and words such as a collation. The parser below adds
what it can see while it parses; the rest follows from the tokens between two children whose places are exact
(see `places.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError
from sqlglot.parsers.sqlite import SQLiteParser

_ENDS = frozenset({")", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "UNION", "INTERSECT", "EXCEPT"})
MOST_TOKENS = 1500  # a model that repeats itself may write more; no reference query comes near


@dataclass(frozen=True)
class Unparsed:
    """Why two queries could not be compared. `side` is "predicted" or "reference"."""

    side: str
    reason: str


class NotPlaced(Exception):
    """A piece of the statement whose tokens cannot be told; becomes `Unparsed`."""


class _Parser(SQLiteParser):
    """SQLite's parser of sqlglot, which also notes where single words stand."""

    def expression(self, instance, token=None, comments=None):
        if token is None and isinstance(instance, (exp.Null, exp.Boolean, exp.Var, exp.Placeholder)):
            token = self._prev
        return super().expression(instance, token, comments)


class Text:
    """A statement's text, tokens and tree. Tokens are named by their index."""

    def __init__(self, sql: str, tokens: Sequence, tree: exp.Expression) -> None:
        self.sql = sql
        self.tree = tree
        self._spans = [(token.start, token.end + 1) for token in tokens]
        self.words = [sql[start:end] for start, end in self._spans]
        self.upper = [" ".join(word.upper().split()) for word in self.words]
        self._index = {start: index for index, (start, _) in enumerate(self._spans)}
        self.closing = self._match_parentheses()

    def __len__(self) -> int:
        return len(self.words)

    def span(self, index: int) -> tuple[int, int]:
        """Characters [start, end) of a token."""
        return self._spans[index]

    def gap(self, index: int) -> int:
        """The character at which something before token `index` would be inserted: behind the token before it."""
        return self._spans[index - 1][1] if index else 0

    def slice(self, first: int, last: int) -> str:
        """The text of tokens [first, last)."""
        return self.sql[self._spans[first][0]: self._spans[last - 1][1]] if last > first else ""

    def token_of(self, node: exp.Expression) -> int | None:
        """The token where `node` is, None if sqlglot did not keep it."""
        return self._index.get(node.meta.get("start"))

    def is_word(self, index: int, *words: str) -> bool:
        return 0 <= index < len(self) and self.upper[index] in words

    def expect(self, index: int, *words: str) -> int:
        """`index`, if one of `words` stands there."""
        if not self.is_word(index, *words):
            found = self.words[index] if 0 <= index < len(self) else "the end"
            raise NotPlaced(f"expected {' or '.join(words)} where {found!r} stands")
        return index

    def fault(self) -> str | None:
        """What sqlglot lets pass and SQLite does not, as far as it would hide a mistake."""
        if len(self.closing) != self.words.count("(") or len(self.closing) != self.words.count(")"):
            return "unbalanced parentheses"
        for index, word in enumerate(self.words[:-1]):
            if word == "," and self.upper[index + 1] in _ENDS or word == "(" and self.words[index + 1] == ",":
                return f"a comma with nothing before or after it, at {self.words[index + 1]}"
        return None

    def _match_parentheses(self) -> dict[int, int]:
        closing, opened = {}, []
        for index, word in enumerate(self.words):
            if word == "(":
                opened.append(index)
            elif word == ")" and opened:
                closing[opened.pop()] = index
        return closing


def parse(sql: str, side: str) -> Text | Unparsed:
    """The one query in `sql`; a closing semicolon may follow."""
    dialect = Dialect.get_or_raise("sqlite")
    try:
        tokens = dialect.tokenize(sql)
        if len(tokens) > MOST_TOKENS:
            return Unparsed(side, f"{len(tokens)} tokens are more than {MOST_TOKENS}")
        trees = [tree for tree in _Parser(dialect=dialect).parse(tokens, sql) if tree is not None]
    except SqlglotError as error:
        return Unparsed(side, _reason(error))
    except RecursionError:
        return Unparsed(side, "nested too deeply")
    if len(trees) != 1 or not isinstance(trees[0], (exp.Select, exp.SetOperation)):
        return Unparsed(side, "not exactly one SELECT statement")
    while tokens and tokens[-1].text == ";":
        tokens = tokens[:-1]
    text = Text(sql, tokens, trees[0])
    fault = text.fault()
    return text if fault is None else Unparsed(side, fault)


def _reason(error: SqlglotError) -> str:
    """One line; sqlglot's own text marks the place with terminal codes."""
    details = getattr(error, "errors", None)
    if details:
        return f"{details[0]['description']} (line {details[0]['line']}, column {details[0]['col']})"
    return " ".join(str(error).split())[:200]
