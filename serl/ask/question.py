"""A question of one's own, made ready for the policy: grounded, rendered and encoded.

What was asked before in the same conversation goes into the evidence of the next question, the oldest first:

    Evidence: <the user's own> earlier question: How many cities are there? its SQL: SELECT count(*) FROM city
    Question: And in Peru?

so that any policy that reads evidence can follow, and so that grounding looks for what they named, too. At most EARLIER
of them are shown, fewer where they would not fit; the rows that they were answered with are not.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from grounding import GroundedSchema, Grounder, Request
from grounding.text import well_formed
from serl.agent.env import Environment
from serl.config import GroundingOptions
from serl.data.example import Example
from serl.errors import InputError
from serl.task import SHORTEST_SCHEMA, render_prompt

EARLIER = 3


class QuestionError(InputError):
    """The question itself is to blame."""


@dataclass(frozen=True)
class Exchange:
    """An earlier question of the conversation, and the SQL that it was answered with, if it was."""

    question: str
    sql: str | None


@dataclass(frozen=True)
class Asked:
    """A question about a database."""

    question: str
    database: Path
    evidence: str = ""
    earlier: tuple[Exchange, ...] = ()


@dataclass(frozen=True)
class Ready:
    """A question that can be put to the policy. `example` has no gold: its SQL is empty."""

    asked: Asked
    example: Example
    grounded: GroundedSchema
    prompt_ids: tuple[int, ...]
    seconds: float  # that this took


class Prompter:
    """Makes questions ready. Not for several threads: tokenizer and grounder belong to the one that calls it."""

    def __init__(self, env: Environment, grounder: Grounder, options: GroundingOptions) -> None:
        self.env, self.grounder, self.options = env, grounder, options

    def prepare(self, asked: Asked) -> Ready:
        """QuestionError for a question that is empty or too long, InputError for a database that cannot be read."""
        start = time.perf_counter()
        example = self._fitting(asked)
        grounded = self.grounder.ground(Request(example.question, example.db_path, example.evidence))
        _, ids = render_prompt(self.env, example, grounded, self.options)
        return Ready(asked, example, grounded, tuple(ids), time.perf_counter() - start)

    def _fitting(self, asked: Asked) -> Example:
        """The question with as many earlier ones as leave room for a schema."""
        if not asked.question.strip():
            raise QuestionError("the question is empty")
        room = self.env.longest_prompt - SHORTEST_SCHEMA
        earlier = asked.earlier[-EARLIER:]
        while (size := len(self.env.prompt_ids(example := _example(asked, earlier), ""))) > room:
            if not earlier:
                raise QuestionError(f"the question is too long: {size} tokens with its evidence and instructions, and "
                                    f"model.max_length {self.env.max_length} leaves {room} beside schema and answer")
            earlier = earlier[1:]
        return example


def _example(asked: Asked, earlier: tuple[Exchange, ...]) -> Example:
    told = [asked.evidence] if asked.evidence.strip() else []
    for each in earlier:
        sql = "it was not answered" if each.sql is None else f"its SQL: {each.sql}"
        told.append(f"earlier question: {each.question} {sql}")
    return Example("", asked.database.stem, well_formed(asked.question), well_formed(" ".join(told)), "", "",
                   asked.database, "asked")
