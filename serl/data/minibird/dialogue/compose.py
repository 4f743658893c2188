"""Composes dialogues: a first question, then follow-ups that need what was said before, each with one clear answer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from serl.data.minibird.compose import TRIES, answerable
from serl.data.minibird.dialogue import words
from serl.data.minibird.dialogue.context import needs_context
from serl.data.minibird.dialogue.moves import MOVES, Step
from serl.data.minibird.dialogue.start import start
from serl.data.minibird.dialogue.talk import Talk
from serl.data.minibird.dialogue.topic import Ask, Topic
from serl.data.minibird.phrases import plural
from serl.data.minibird.schema import Table
from serl.data.minibird.world import World
from serl.data.turn_notes import TurnNote
from serl.errors import InputError
from serl.sql.clauses import Schema

LENGTHS = {2: 0.15, 3: 0.35, 4: 0.25, 5: 0.17, 6: 0.08}  # turns of a dialogue → share; the mean is 3.7, CoSQL's 3.4
FOLLOW_UPS = {"refine": 0.3, "replace": 0.2, "aggregate": 0.16, "refer": 0.24, "switch": 0.1}
RETURN = 0.5  # share of follow-ups after a switch of topic that return to the topic before it
_KINDS_TRIED, _TRIES = 6, 12  # kinds, and attempts at each, before a dialogue is given up


@dataclass(frozen=True)
class Turn:
    question: str
    sql: str
    note: TurnNote


@dataclass(frozen=True)
class Dialogue:
    """Turns, and the last one's query asked for in full."""

    db_id: str
    turns: tuple[Turn, ...]
    final: str


def dialogues(world: World, count: int, rng: random.Random) -> list[Dialogue]:
    """`count` dialogues; no query and no first question occurs in two of them. InputError where there are too few."""
    composer = _Composer(world, rng)
    made: list[Dialogue] = []
    for _ in range(count):
        dialogue = composer.next()
        if dialogue is None:
            raise InputError(f"minibird: database {world.database.name} gives no further dialogue after {len(made)}; "
                             "ask for fewer")
        made.append(dialogue)
    return made


class _Composer:
    """Makes the dialogues of one database; `taken` has the queries, and first questions in lower case, so far."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.taken: set[str] = set()
        self.schema: Schema = {table.name: tuple(column.name for column in table.columns)
                               for table in world.database.tables}

    def next(self) -> Dialogue | None:
        for _ in range(TRIES):
            dialogue = self._dialogue(self.rng.choices(list(LENGTHS), list(LENGTHS.values()))[0])
            if dialogue:
                self.taken |= {turn.sql for turn in dialogue.turns} | {dialogue.turns[0].question.lower()}
                return dialogue
        return None

    def _dialogue(self, length: int) -> Dialogue | None:
        """One attempt."""
        topic = self._start(1, ())
        if topic is None:
            return None
        question = topic.question(self.rng)
        if question.lower() in self.taken:
            return None
        turns = [Turn(question, topic.sql, TurnNote("start"))]
        left: Topic | None = None  # the topic before a switch, until the dialogue returns to it
        while len(turns) < length:
            found = self._follow_up(topic, left, turns)
            if found is None:
                return None
            kind, new, said, left = found
            note = TurnNote(kind, () if kind == "switch" else new.carried(len(turns) + 1, self.schema))
            turns.append(Turn(said, new.sql, note))
            topic = new
        return Dialogue(self.world.database.name, tuple(turns), topic.question(self.rng))

    def _follow_up(self, topic: Topic, left: Topic | None, turns: list[Turn]
                   ) -> tuple[str, Topic, str, Topic | None] | None:
        """Kind, topic and words of the next turn, and what is left to return to."""
        number = len(turns) + 1
        said_before = {turn.sql for turn in turns}
        # One switch in a dialogue, so that it is clear what to return to, and not before something was carried over.
        kinds = dict(FOLLOW_UPS)
        if number < 3 or any(turn.note.kind == "switch" for turn in turns):
            del kinds["switch"]
        for _ in range(_KINDS_TRIED):
            kind = self.rng.choices(list(kinds), list(kinds.values()))[0]
            returns = left is not None and kind != "switch" and self.rng.random() < RETURN
            for _ in range(_TRIES):
                if kind == "switch":
                    step = self._switch(topic, number)
                elif returns:
                    step = self._return(kind, left, topic, number)
                else:
                    step = self._move(kind, topic, number)
                if step and step[0].sql not in said_before:
                    still_left = topic if kind == "switch" else None if returns else left
                    return "refer" if returns else kind, *step, still_left
        return None

    def _start(self, number: int, apart_from: Collection[Table]) -> Topic | None:
        topic = start(Talk(self.world, number, self.rng), apart_from)
        return topic if topic and self._will_do(topic) else None

    def _switch(self, topic: Topic, number: int) -> Step:
        """Another topic."""
        new = self._start(number, topic.path.tables)
        return None if new is None else (new, new.question(self.rng))

    def _return(self, kind: str, left: Topic, topic: Topic, number: int) -> Step:
        """A follow-up to the topic before the switch, of which only the noun is said."""
        step = None if left.path.tables[0] in topic.path.tables else self._move(kind, left, number)
        if step is None:
            return None
        new, rest = step
        noun = left.nouns[0] if left.is_one else plural(left.nouns[0])
        said = self.rng.choice(words.RETURN).format(t=noun, rest=rest[0].lower() + rest[1:])
        return (new, said) if needs_context(new, said, number) else None

    def _move(self, kind: str, topic: Topic, number: int) -> Step:
        move = self.rng.choices(list(MOVES[kind]), list(MOVES[kind].values()))[0]
        step = move(Talk(self.world, number, self.rng), topic)
        if step is None or not needs_context(*step, number) or not self._will_do(step[0]):
            return None
        return step

    def _will_do(self, topic: Topic) -> bool:
        """Whether the query is a new one with a clear answer, to which each of its conditions makes a difference."""
        if topic.sql in self.taken or not answerable(self.world, topic.sql):
            return False
        if topic.rank or topic.ask is not Ask.LIST:
            asked = len(self.world.run(f"SELECT * {topic.rows_sql}"))
            if asked < 2 or (topic.rank and topic.rank.limit or 0) >= asked:
                return False
        rows = self.world.run(topic.sql)
        if topic.ask is Ask.GROUP and len(rows) < 2 or topic.ask is Ask.DISTINCT and rows == [(1,)]:
            return False
        return all(Counter(self.world.run(other.sql)) != Counter(rows) for other in topic.with_one_filter_less())
