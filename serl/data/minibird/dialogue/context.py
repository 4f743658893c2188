"""Whether a follow-up has to be read with what was said before it."""

from __future__ import annotations

import re

from serl.data.minibird.dialogue.topic import Topic
from serl.data.minibird.phrases import plural

_LITERAL = re.compile(r"'%?([^']*?)%?'|(\d+(?:\.\d+)?)")


def needs_context(topic: Topic, said: str, turn: int) -> bool:
    """Whether what turn `turn` says leaves out what its query carries over.

    None of the conditions that it carries over is said again, neither in words nor by a literal; and where it carries
    no condition over, the rows' noun is not said either.
    """
    carried = [each.condition for each in topic.filters if each.since < turn]
    told = [each.text for each in carried] + [word for each in carried for word in _literals(each.sql)]
    if not carried:
        told = [noun for table, since in zip(topic.path.tables, topic.tables_since) if since < turn
                for each in table.said for noun in (each, plural(each))]
    return not any(says(said, words) for words in told)


def says(text: str, words: str) -> bool:
    """Whether a text has these words, whole ones, in whatever case.

    >>> says("Which of them are from Rome?", "rome"), says("Which of them are romantic?", "roman")
    (True, False)
    """
    return bool(re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE))


def _literals(sql: str) -> list[str]:
    return [text or number for text, number in _LITERAL.findall(sql)]
