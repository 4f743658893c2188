"""An answer as Markdown, for whoever shows chat messages: the SQL in a fence, the rows as a table.

A model writes the SQL and a database has the cells, so that neither may become markup: a fence is longer than any run
of backticks in it, and in cells every character that could begin a link, an image, HTML or another cell is escaped.
"""

import re
from collections.abc import Iterable

from serl.agent.observation import clean
from serl.ask.answer import Answer
from serl.sql.outcome import Outcome

CELL_CHARS = 200
_MARKUP = re.compile(r"([\\`*_\[\]<>|~&$!#])")
_TICKS = re.compile(r"`+")


def answer_text(answer: Answer, rows: int) -> str:
    """The message that answers a question."""
    parts = [] if answer.sql is None else [fenced(answer.sql.strip(), "sql")]
    parts.append(rows_text(answer.outcome, rows) if answer.answered else f"No answer: {escaped(answer.why_not)}")
    return "\n\n".join(parts)


def rows_text(outcome: Outcome, rows: int) -> str:
    """The first rows as a table, and how many there are."""
    count = f"{outcome.row_count} row{'' if outcome.row_count == 1 else 's'}"
    shown = outcome.rows[:rows]
    if not shown:
        return count
    more = f", the first {len(shown)} of them here" if len(shown) < outcome.row_count else ""
    lines = [_line(outcome.columns), "|" + " --- |" * len(outcome.columns), *map(_line, shown)]
    return "\n".join([*lines, "", count + more])


def fenced(text: str, language: str) -> str:
    """A block of code that nothing in it can close."""
    ticks = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"


def escaped(cell: object) -> str:
    """One line of text, none of which is markup.

    >>> escaped("![](http://x) a|b")
    '\\\\!\\\\[\\\\](http://x) a\\\\|b'
    """
    return _MARKUP.sub(r"\\\1", clean(cell, CELL_CHARS))


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(escaped, cells))} |"
