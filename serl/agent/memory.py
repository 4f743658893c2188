"""The memory of a dialogue: what its earlier turns asked, how that was answered in SQL, and with what result.

    memory = DialogueMemory(schema_of(example.db_path))
    memory.add(Entry.of(example, sql, Origin.PREDICTED, outcome))
    memory.retrieve("SELECT ...", fits)         what the tool `memory_retrieve` answers

An answer is text for a prompt, within a budget: questions, SQL, names and cells are made harmless as observations are
(`grounding.safety`). It tells the turns in their order and, of a query, which literals of earlier turns it lacks: what
M-VERIFY has to see (MTSQL-R1, arXiv 2510.12831). Where an entry's SQL comes from is known here and not told, so that a
policy reads the same words under every prior.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from grounding.safety import neutralize
from serl.agent.observation import render_outcome
from serl.data.example import Example
from serl.sql.clauses import Clauses, Entity, Schema, Unparsed, read_clauses
from serl.sql.outcome import Outcome
from serl.sql.tree.schema import schema_of


class Origin(StrEnum):
    """Where the SQL of an entry comes from."""

    GOLD = "gold"
    PREDICTED = "predicted"


class Prior(StrEnum):
    """Which SQL of earlier turns a dialogue rests on."""

    GOLD = "gold"
    """The gold queries: the standard setting of SParC and CoSQL."""
    PREDICTED = "predicted"
    """The policy's own final queries: a dialogue's turns have to run in order."""
    MIXED = "mixed"
    """One or the other, by a coin for each turn."""

    def origin(self, question_id: str, seed: int) -> Origin:
        """Of an earlier turn; a function of the arguments alone."""
        if self is Prior.MIXED:
            return random.Random(f"prior/{seed}/{question_id}").choice((Origin.GOLD, Origin.PREDICTED))
        return Origin(self.value)


@dataclass(frozen=True)
class Entry:
    """An earlier turn."""

    turn: int
    question: str
    sql: str
    """"" where the turn was left without an answer."""
    origin: Origin
    clauses: Clauses | Unparsed
    result: Outcome

    @classmethod
    def of(cls, example: Example, sql: str, origin: Origin, result: Outcome) -> Entry:
        """The entry of a turn of a dialogue with its SQL and what came of it."""
        return cls(example.turn, example.question, sql, origin, read_clauses(sql, schema_of(example.db_path)), result)

    @property
    def entities(self) -> tuple[Entity, ...]:
        """Literals with the columns that they are compared with."""
        return self.clauses.entities if isinstance(self.clauses, Clauses) else ()


@dataclass(frozen=True)
class Caps:
    """How much of an entry is told at most."""

    rows: int = 3
    cell_chars: int = 40
    question_chars: int = 400
    sql_chars: int = 800


class Memory(ABC):
    """What an environment asks of a memory."""

    @abstractmethod
    def add(self, entry: Entry) -> None:
        """Remember a turn; turns come in order."""

    @abstractmethod
    def entries(self) -> Sequence[Entry]:
        """The turns so far, the first one first."""

    @abstractmethod
    def bodies(self, query: str) -> list[str]:
        """Answers to a query, ever shorter ones; none holds control tokens or forges a line."""

    def retrieve(self, query: str, fits: Callable[[str], bool]) -> str:
        """The longest answer that fits, or the shortest there is."""
        bodies = self.bodies(query)
        return next(filter(fits, bodies), bodies[-1])


class DialogueMemory(Memory):
    """All turns of one dialogue, in this process. `schema` is that of its database: queries are read with it."""

    def __init__(self, schema: Schema | None, entries: Iterable[Entry] = (), caps: Caps = Caps()) -> None:
        self._schema, self._caps = schema, caps
        self._entries: list[Entry] = []
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        if self._entries and entry.turn <= self._entries[-1].turn:
            raise ValueError(f"turn {entry.turn} comes behind turn {self._entries[-1].turn}")
        self._entries.append(entry)

    def entries(self) -> Sequence[Entry]:
        return tuple(self._entries)

    def bodies(self, query: str) -> list[str]:
        """First all there is; then without results; without clauses; without the earliest turns; their number alone.

        The query is SQL, of which the answer says what it lacks. Of other text it says nothing.
        """
        count = f"{len(self._entries)} earlier turn{'' if len(self._entries) == 1 else 's'}"
        if not self._entries:
            return [count]
        lacking = self._lacking(read_clauses(query, self._schema))
        told = [[count, *self._told(0, detail), *lacking] for detail in (2, 1, 0)]
        told += [[f"{count}, the last {len(self._entries) - start}:", *self._told(start, 0), *lacking]
                 for start in range(1, len(self._entries))]
        return list(dict.fromkeys("\n".join(lines) for lines in [*told, [count, *lacking], [count]]))

    def _told(self, start: int, detail: int) -> list[str]:
        return [line for entry in self._entries[start:] for line in self._lines(entry, detail)]

    def _lines(self, entry: Entry, detail: int) -> list[str]:
        """An entry; `detail` 0: question and SQL, 1: its clauses and entities as well, 2: its result as well."""
        caps = self._caps
        lines = [f"turn {entry.turn}: {neutralize(entry.question, caps.question_chars)}",
                 f"sql: {neutralize(entry.sql, caps.sql_chars) or 'none'}"]
        if detail >= 1 and isinstance(entry.clauses, Clauses):
            listed = {**entry.clauses.items, "entities": tuple(map(str, entry.entities))}
            lines += [neutralize(f"{name}: {', '.join(items)}", caps.sql_chars) for name, items in listed.items()
                      if items]
        if detail >= 2:
            told = render_outcome(entry.result, caps.rows, caps.cell_chars)
            lines.append("result: " + told.replace("\n", "; "))  # one line, so that no cell is a turn
        return lines

    def _lacking(self, clauses: Clauses | Unparsed) -> list[str]:
        """For each turn, the literals that it compares and the query does not."""
        if isinstance(clauses, Unparsed):
            return []
        lines = []
        for entry in self._entries:
            missing = [str(each) for each in entry.entities if each not in clauses.entities]
            if missing:
                lines.append(neutralize(f"not in this query, but in turn {entry.turn}: {', '.join(missing)}",
                                        self._caps.sql_chars))
        return lines


@dataclass(frozen=True)
class Answer:
    """What a policy answered a turn with; no SQL: nothing."""

    sql: str
    result: Outcome


def remember(earlier: Iterable[Example], prior: Prior, seed: int, gold: Mapping[str, Outcome],
             predicted: Mapping[str, Answer]) -> list[Entry]:
    """The entries of the turns before one, by the prior.

    `gold` (results of gold queries) and `predicted` hold, by question id, at least the turns that the prior takes from
    them; a turn that is missing there raises KeyError.
    """
    entries = []
    for example in earlier:
        origin = prior.origin(example.question_id, seed)
        answer = predicted[example.question_id] if origin is Origin.PREDICTED else Answer(
            example.gold_sql, gold[example.question_id])
        entries.append(Entry.of(example, answer.sql, origin, answer.result))
    return entries
