"""The `fence` dialect, of SQL-R1 (arXiv 2504.08600): one turn, no tools.

    <think>...</think> <answer> ... ```sql
    SELECT ...
    ``` ... </answer>

The last whole block of the last answer is the solution. The line breaks beside the fences are not part of it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from serl.agent.dialects.dialect import THINK_TAG, Dialect, written
from serl.agent.dialects.events import Event, Final, Kind, Malformed

_ANSWER = re.compile(rb"<answer>(.*?)</answer>", re.DOTALL)
_OPENER = re.compile(rb"```sql(?:[ \t\r]*\n|[ \t]|(?=```))", re.IGNORECASE)
_FENCE = b"```"


@dataclass(frozen=True)
class Fence(Dialect):
    """A fenced block in an answer.

    >>> Fence().parse(b"<answer>```sql\\nSELECT 1\\n```</answer>").sql
    'SELECT 1'
    """

    name = "fence"
    tags = (THINK_TAG, "answer")
    stop_tags = (b"</answer>",)
    solution = "answer"

    def read(self, sampled: bytes, start: int) -> Iterator[Event]:
        answers = list(_ANSWER.finditer(sampled, start))
        if not answers:
            opened = sampled.find(b"<answer>", start) >= 0
            yield Malformed((start, len(sampled)), "<answer> was not closed with </answer>" if opened else
                            "expected <answer>...</answer> with a ```sql block in it")
            return
        first, end = answers[-1].span(1)
        body, opened = None, False
        while (opener := _OPENER.search(sampled, first, end)) is not None:
            opened = True
            close = sampled.find(_FENCE, opener.end(), end)
            if close < 0:
                break
            body, first = (opener.end(), close), close + len(_FENCE)
        if body is None:
            yield Malformed(answers[-1].span(1), "the ```sql block was not closed with ```" if opened else
                            "expected a ```sql block in <answer>...</answer>")
            return
        if sampled.endswith(b"\n", *body):
            body = body[0], body[1] - 1
        yield written(Final, sampled, body)

    def action(self, kind: Kind, text: str) -> str:
        if kind is not Kind.FINAL:
            raise ValueError(f"dialect fence has no action {kind}")
        return f"<answer>\n```sql\n{text}\n```\n</answer>"

    def observation(self, body: str, role: str) -> str:
        return body

    def instructions(self, turns: str) -> str:
        return (
            "You are an expert in SQLite. Answer the question with one SQL query on the given database.\n"
            "First think inside <think>...</think>. Then give the query in a sql block inside <answer>...</answer>; it "
            "returns exactly the columns that are asked for.\n"
            "For example, to the question \"How many singers are there?\" a whole answer is:\n"
            "<think>\nEach row of singer is one singer, so I count its rows.\n</think>\n"
            "<answer>\n```sql\nSELECT count(*) FROM singer\n```\n</answer>")
