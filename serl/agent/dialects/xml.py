"""The `xml` dialect, of SERL-SQL.

    <think>...</think> <sql>SELECT ...</sql>             an intermediate query
    <think>...</think> <solution>SELECT ...</solution>   the final answer

The first of the two counts when a model writes both.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from serl.agent.dialects.dialect import THINK_TAG, Dialect, written
from serl.agent.dialects.events import Event, Final, Kind, Malformed, Sql

_TAGS = {Kind.SQL: "sql", Kind.FINAL: "solution"}
_READ = {b"<sql>": (b"</sql>", Sql), b"<solution>": (b"</solution>", Final)}


@dataclass(frozen=True)
class Xml(Dialect):
    """Queries and solutions between tags.

    >>> Xml().parse(b"<think>hm</think><sql>SELECT 1</sql>").sql_span
    (22, 30)
    >>> Xml().is_complete(b"<think></sql>", 1), Xml().is_complete(b"<sql>SELECT 1</sql>", 1)
    (False, True)
    """

    name = "xml"
    tags = (THINK_TAG, "sql", "solution", "observation")
    stop_tags = (b"</sql>", b"</solution>")
    solution = "solution"

    def read(self, sampled: bytes, start: int) -> Iterator[Event]:
        found = sorted((place, opener) for opener in _READ if (place := sampled.find(opener, start)) >= 0)
        if not found:
            yield Malformed((start, len(sampled)), "expected <sql>...</sql> or <solution>...</solution>")
            return
        place, opener = found[0]
        closer, kind = _READ[opener]
        body = place + len(opener)
        end = sampled.find(closer, body)
        if end < 0:
            yield Malformed((body, len(sampled)), f"{opener.decode()} was not closed with {closer.decode()}")
            return
        yield written(kind, sampled, (body, end))

    def action(self, kind: Kind, text: str) -> str:
        if kind not in _TAGS:
            raise ValueError(f"dialect xml has no action {kind}")
        return f"<{_TAGS[kind]}>{text}</{_TAGS[kind]}>"

    def observation(self, body: str, role: str) -> str:
        return f"<observation>\n{body}\n</observation>"

    def instructions(self, turns: str) -> str:
        return (
            "You are an expert in SQLite. Answer the question with one SQL query on the given database.\n"
            "You may think inside <think>...</think>. Then do one of two things:\n"
            "- <sql>SELECT ...</sql> runs a query; the database answers with its rows or its error message.\n"
            "- <solution>SELECT ...</solution> gives the final query and ends the conversation.\n"
            f"Check values and intermediate results before you answer. {turns} The solution returns exactly the "
            "columns that are asked for.\n"
            "For example, to the question \"How many singers are there?\" a whole answer is:\n"
            "<solution>SELECT count(*) FROM singer</solution>")
