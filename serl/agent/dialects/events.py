"""What one sampled action says: typed events, each with the bytes that say it.

    Think, Sql(role), Verify(check, verdict), Recall, Final, Malformed(reason)

The last event is the action itself, the ones before it are what the policy said on the way. Spans are of what is
said, without the tags around it, in the bytes that were sampled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from serl.agent.spans import Span


class Kind(StrEnum):
    """What an action is."""

    SQL = "sql"  # run a query and look at its answer
    RECALL = "recall"  # look into the dialogue's memory
    FINAL = "final"  # the solution; ends the trajectory
    MALFORMED = "malformed"  # none of these; answered with an error observation that costs a turn


class Role(StrEnum):
    """What a query is for, as far as its own action tells."""

    QUERY = "query"
    CORRECT = "correct"  # it follows a check of the same action that failed


class Check(StrEnum):
    """What a verdict is about."""

    EXECUTION = "exec"  # the database's answer to the query before
    MEMORY = "memory"  # what was recalled


@dataclass(frozen=True)
class Event:
    """`span` is the range of bytes that say it."""

    span: Span

    @property
    def acting(self) -> tuple[Span, ...]:
        """What of it the action mask covers."""
        return ()


@dataclass(frozen=True)
class Think(Event):
    """Reasoning."""


@dataclass(frozen=True)
class Verify(Event):
    """A verdict of the policy."""

    check: Check
    verdict: bool


@dataclass(frozen=True)
class Malformed(Event):
    """What cannot be read; the reason is worded for the model."""

    reason: str


@dataclass(frozen=True)
class Written(Event):
    """A text that acts. `offsets` are the bytes at which its characters begin, and where the last one ends.

    Within JSON a character may be spelled with more bytes than it has: \\n, \\", \\u00e9.
    """

    text: str
    offsets: tuple[int, ...]
    tool: Span | None = None  # the name of the tool that it is the argument of

    @property
    def acting(self) -> tuple[Span, ...]:
        return (self.span,) if self.tool is None else (self.tool, self.span)


@dataclass(frozen=True)
class Sql(Written):
    """A query that the database should answer."""

    role: Role = Role.QUERY


@dataclass(frozen=True)
class Recall(Written):
    """A look into the dialogue's memory."""


@dataclass(frozen=True)
class Final(Written):
    """The solution; its bytes are those of its text, in every dialect."""


@dataclass(frozen=True)
class Action:
    """A parsed action. `sql_span` is the byte range of the SQL body in the sampled bytes."""

    kind: Kind
    sql: str | None = None
    sql_span: Span | None = None
    reason: str = ""  # why it is malformed, worded for the model
    events: tuple[Event, ...] = ()

    @classmethod
    def of(cls, events: Sequence[Event]) -> "Action":
        """The action that `events` end with."""
        events = tuple(events)
        match events[-1]:
            case Sql() as query:
                return cls(Kind.SQL, query.text, query.span, events=events)
            case Final() as final:
                return cls(Kind.FINAL, final.text, final.span, events=events)
            case Recall():
                return cls(Kind.RECALL, events=events)
            case Malformed() as malformed:
                return cls(Kind.MALFORMED, reason=malformed.reason, events=events)
            case other:
                raise ValueError(f"an action cannot end with {other}")

    @property
    def acting(self) -> tuple[Span, ...]:
        """Byte ranges that the action mask covers: SQL bodies, tool names and arguments."""
        return tuple(span for event in self.events for span in event.acting)

    @property
    def offsets(self) -> tuple[int, ...]:
        """The bytes at which the characters of its SQL begin, and where the last one ends; none without SQL."""
        last = self.events[-1] if self.events else None
        return last.offsets if isinstance(last, (Sql, Final)) else ()
