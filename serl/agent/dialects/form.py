"""An action read to the letter: what a reward for its form goes by, where `parse` takes what can be understood."""

from dataclasses import dataclass

from serl.agent.spans import Span


@dataclass(frozen=True)
class Form:
    """What breaks the form ("" for nothing), and the bytes of its parts; None: it has no such part."""

    fault: str
    thinking: Span | None = None
    answer: Span | None = None  # what stands in the answer, around its SQL
    sql: Span | None = None
