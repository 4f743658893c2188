"""What Spider's evaluation does to the text of two queries before it runs them.

The sandbox never rewrites a statement; this is the one place where text is changed, and only for `spider_ex`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from serl.sql.statement import split, tokens

_THIS_YEAR = re.compile(r"YEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\)\s*", re.IGNORECASE)
_OPERATORS_WITH_SPACE = (("> =", ">="), ("< =", "<="), ("! =", "!="))
_LITERAL = re.compile(
    r"""
      (?P<literal> '(?:[^']|'')*' | "(?:[^"]|"")*" | (?<![\w.]) (?:\d+(?:\.\d+)?|\.\d+) (?![\w.]) )
    | `[^`]*` | \[[^\]]*\] | --[^\n]* | /\*.*?\*/
    """,
    re.VERBOSE | re.DOTALL,
)


def prepare(sql: str, keep_distinct: bool = False, compat: bool = False) -> str:
    """The text that is run in place of `sql`, gold's as well as a prediction's.

    Spaces inside `>=`, `<=` and `!=` go away, `YEAR(CURDATE())` becomes 2020 (the year of the data's making), and
    DISTINCT goes unless `keep_distinct`. `compat` copies two faults of the official script while it strips DISTINCT:
    the word also goes from `IS DISTINCT FROM`, and of several statements the first is run (here they are refused).

    >>> prepare("SELECT DISTINCT a FROM t WHERE b > = 1")
    'SELECT  a FROM t WHERE b >= 1'
    """
    for spaced, operator in _OPERATORS_WITH_SPACE:
        sql = sql.replace(spaced, operator)
    if not keep_distinct:
        if compat:
            sql = next(iter(split(sql)), "")
        sql = _without_distinct(sql, everywhere=compat)
    return _THIS_YEAR.sub("2020", sql)


def prediction_text(sql: str) -> str:
    """What the official script makes of a prediction at first: the word `value`, in lower case, becomes 1.

    It stands for a value that was not predicted in the output of early models. In all other queries it is a name,
    or part of a text: a fault, which only `compat` copies.
    """
    return sql.replace("value", "1")


def plugged(pred: str, gold: str) -> Iterator[str]:
    """The prediction with its literals replaced by gold's, in every way: each literal becomes any of gold's.

    Strings in either kind of quotes and numbers are literals, also the number behind LIMIT. There are g ** p ways
    for p literals in the prediction and g different ones in gold.

    >>> list(plugged("SELECT a FROM t WHERE b = 'x' LIMIT 9", "SELECT a FROM t WHERE b = 'y' LIMIT 3"))[1]
    "SELECT a FROM t WHERE b = 'y' LIMIT 3"
    """
    values = list(dict.fromkeys(gold[start:end] for start, end in _literals(gold)))
    slots = _literals(pred)
    ends = [0, *(end for _, end in slots)]
    between = [pred[end:start] for end, (start, _) in zip(ends, slots)]
    for choice in itertools.product(values, repeat=len(slots)):
        yield "".join(itertools.chain.from_iterable(zip(between, choice))) + pred[ends[-1] :]


def _without_distinct(sql: str, everywhere: bool) -> str:
    kept: list[str] = []
    done = 0
    words = ("", "")  # the last two tokens, in upper case
    for token in tokens(sql):
        word = token.group().upper()
        if word == "DISTINCT" and (everywhere or not (words[1] == "IS" or words == ("IS", "NOT"))):
            kept.append(sql[done : token.start()])
            done = token.end()
        words = (words[1], word)
    return "".join(kept) + sql[done:]


def _literals(sql: str) -> list[tuple[int, int]]:
    """Where the literals stand: quoted texts, and numbers that are no part of a name."""
    return [match.span() for match in _LITERAL.finditer(sql) if match["literal"] is not None]
