"""The `xml` dialect: what one sampled action says, with exact byte spans.

    <think>...</think> <sql>SELECT ...</sql>             an intermediate query
    <think>...</think> <solution>SELECT ...</solution>   the final answer

Thinking is optional. The action is what follows its `</think>`, so that a tag that is quoted in thinking is
not an action. Only sampled bytes are parsed, never observations.
"""

from dataclasses import dataclass
from enum import StrEnum

STOP_TAGS = (b"</sql>", b"</solution>")
_OPENERS = ((b"<sql>", b"</sql>"), (b"<solution>", b"</solution>"))


class Kind(StrEnum):
    """What an action is."""

    SQL = "sql"  # run a query and look at its answer
    FINAL = "final"  # the solution; ends the trajectory
    MALFORMED = "malformed"  # neither; answered with an error observation that costs a turn


@dataclass(frozen=True)
class Action:
    """A parsed action. `sql_span` is the byte range of the SQL body in the sampled bytes."""

    kind: Kind
    sql: str | None = None
    sql_span: tuple[int, int] | None = None
    reason: str = ""  # why it is malformed, worded for the model


def parse(sampled: bytes) -> Action:
    """Parse one action's sampled bytes.

    >>> parse(b"<think>hm</think><sql>SELECT 1</sql>")
    Action(kind=<Kind.SQL: 'sql'>, sql='SELECT 1', sql_span=(22, 30), reason='')
    """
    start = after_thinking(sampled)
    if start is None:
        return Action(Kind.MALFORMED, reason="the thinking was not closed with </think>")
    found = [(sampled.find(opener, start), opener, closer) for opener, closer in _OPENERS]
    found = sorted(entry for entry in found if entry[0] >= 0)
    if not found:
        return Action(Kind.MALFORMED, reason="expected <sql>...</sql> or <solution>...</solution>")
    position, opener, closer = found[0]
    body = position + len(opener)
    end = sampled.find(closer, body)
    if end < 0:
        return Action(Kind.MALFORMED, reason=f"{opener.decode()} was not closed with {closer.decode()}")
    kind = Kind.SQL if opener == b"<sql>" else Kind.FINAL
    try:
        sql = sampled[body:end].decode("utf-8")
    except UnicodeDecodeError:
        return Action(Kind.MALFORMED, reason="the SQL is not valid UTF-8")
    return Action(kind, sql, (body, end))


def after_thinking(sampled: bytes) -> int | None:
    """Where the action may begin: behind the opening thinking, 0 without one, None while it is open."""
    if not sampled.lstrip().startswith(b"<think>"):
        return 0
    close = sampled.find(b"</think>")
    return None if close < 0 else close + len(b"</think>")


def is_complete(sampled: bytes, fresh: int) -> bool:
    """Whether the last `fresh` bytes complete a closing tag outside of thinking: sampling stops there.

    >>> is_complete(b"<think></sql>", 1), is_complete(b"<sql>SELECT 1</sql>", 1)
    (False, True)
    """
    start = after_thinking(sampled)
    if start is None:
        return False
    start = max(start, len(sampled) - fresh - max(map(len, STOP_TAGS)) + 1)
    return any(sampled.find(tag, start) >= 0 for tag in STOP_TAGS)


def token_span(lengths: list[int], span: tuple[int, int]) -> tuple[int, int]:
    """Tokens that hold at least one byte of `span`, as [start, end) indices.

    `lengths` are the byte lengths of the sampled tokens. A token that straddles a tag and the SQL
    belongs to the SQL, since the policy chose SQL bytes with it.

    >>> token_span([5, 3, 4, 6], (5, 12))
    (1, 3)
    """
    start, end, offset = None, 0, 0
    for index, length in enumerate(lengths):
        if length and offset < span[1] and offset + length > span[0]:
            start, end = (index if start is None else start), index + 1
        offset += length
    return (start, end) if start is not None else (0, 0)


def write(kind: Kind, sql: str, thinking: str = "") -> str:
    """The text of an action in this dialect: what `parse` reads back."""
    tag = "sql" if kind is Kind.SQL else "solution"
    return (f"<think>{thinking}</think>" if thinking else "") + f"<{tag}>{sql}</{tag}>"
