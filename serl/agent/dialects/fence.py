"""The `fence` dialect, of SQL-R1 (arXiv 2504.08600): one turn, no tools.

    <think>...</think> <answer> ... ```sql
    SELECT ...
    ``` ... </answer>

The last whole block of the last answer is the solution. The line breaks beside the fences are not part of it.

`form` is the strict judgement that SQL-R1 rewards: each of the four tags exactly once and in this order, and a block
with something in it. A tag that the prompt has opened counts, and writing it once more at the very beginning is no
fault: the released code punishes models whose habit this is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from serl.agent.dialects.dialect import CLOSE_THINKING, OPEN_THINKING, THINK_TAG, Dialect, written
from serl.agent.dialects.events import Event, Final, Kind, Malformed
from serl.agent.dialects.form import Form

_ANSWER = re.compile(rb"<answer>(.*?)</answer>", re.DOTALL)
_OPENER = re.compile(rb"```sql(?:[ \t\r]*\n|[ \t]|(?=```))", re.IGNORECASE)
_FENCE = b"```"
_TAG = re.compile(rb"</?(?:think|answer)>")
_TAGS = (OPEN_THINKING.encode(), CLOSE_THINKING.encode(), b"<answer>", b"</answer>")  # a message that keeps the form


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

    def form(self, sampled: bytes) -> Form:
        action = self.parse(sampled)
        if action.kind is Kind.MALFORMED:
            return Form(action.reason)
        tags = list(_TAG.finditer(sampled))
        names = [tag.group() for tag in tags]
        if self.thinking_open and not sampled.lstrip().startswith(_TAGS[0]):
            names.insert(0, _TAGS[0])
        if (fault := _fault(names)) or not action.sql.strip():
            return Form(fault or "the ```sql block is empty")
        close, opener, end = tags[-3:]
        begin = tags[0].end() if len(tags) == len(_TAGS) else 0
        return Form("", (begin, close.start()), (opener.end(), end.start()), action.sql_span)

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


def _fault(names: list[bytes]) -> str:
    """What is wrong with the tags of a message, in the order in which they stand; "" if nothing is.

    >>> _fault([b"<think>", b"</think>", b"<answer>", b"<answer>", b"</answer>"])
    '<answer> stands there 2 times, not once'
    """
    for tag in _TAGS:
        if (count := names.count(tag)) != 1:
            return f"{tag.decode()} stands there {count} times, not once"
    return "" if tuple(names) == _TAGS else "the tags are in another order"
