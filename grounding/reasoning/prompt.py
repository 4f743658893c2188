"""What a model is asked: question, evidence and the compact schema, with the roles in which SQL uses a column.

The roles are those of SERL-SQL's reasoning links: projection, filter, join keys, aggregates. The schema is the whole
one, with matched values marked. Where it does not fit the prompt's budget, it is that of the first tables by lexical
score that do, and the prompt says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from grounding.grounded import GroundedSchema
from grounding.reasoning.chat import Message
from grounding.render import fit_schema, render_schema

SYSTEM = """\
You find the tables and columns that an SQL query needs to answer a question. Do not write the query. Answer with one \
JSON object and nothing else:
{"tables": ["table"], "projection": ["table.column"], "filter": ["table.column"], "join": ["table.column"], \
"aggregate": ["table.column"]}
tables: every table that the query reads.
projection: the columns that it returns.
filter: the columns that it compares with values.
join: both columns of every join.
aggregate: the columns that it counts, sums, groups or sorts by.
Use names of the schema, without quotes, each column with its table. A list may be empty. When in doubt, name a column \
rather than not."""


@dataclass(frozen=True)
class Ask:
    """A question, its evidence, and its database with all tables, the likeliest first, as mode full links them."""

    question: str
    evidence: str
    full: GroundedSchema


@dataclass(frozen=True)
class Prompt:
    messages: list[Message]
    left_out: str = ""
    """What the budget had no room for, as a warning says it."""


def make_prompt(ask: Ask, budget: int, count_tokens: Callable[[str], int]) -> Prompt:
    """The messages for a question, with a schema of at most `budget` tokens."""
    total, columns = len(ask.full.tables), _column_count(ask.full)
    most = _most_tables(ask.full, budget, count_tokens)
    schema, shown = fit_schema(_first(ask.full, most), "compact", budget, count_tokens)
    parts, left_out = [schema], ""
    if _column_count(shown) < columns:
        parts.append(f"These are the likeliest {most} of {total} tables; the others did not fit." if most < total else
                     "Some columns did not fit.")
        left_out = (f"the model was shown {most} of {total} tables, {_column_count(shown)} of {columns} columns, for "
                    f"want of room in {budget} tokens")
    if ask.evidence:
        parts.append(f"Evidence: {ask.evidence}")
    parts.append(f"Question: {ask.question}")
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n".join(parts)}]
    return Prompt(messages, left_out)


def _most_tables(full: GroundedSchema, budget: int, count_tokens: Callable[[str], int]) -> int:
    """How many of the first tables fit whole; 1 at least, whose columns are then cut."""
    fewest, most = 1, len(full.tables)
    while fewest < most:
        middle = (fewest + most + 1) // 2
        if count_tokens(render_schema(_first(full, middle))) <= budget:
            fewest = middle
        else:
            most = middle - 1
    return fewest


def ask_again(messages: list[Message], answer: str, reason: str) -> list[Message]:
    """The conversation that goes on after an answer that could not be used."""
    return [*messages, {"role": "assistant", "content": answer},
            {"role": "user", "content": f"This answer cannot be used: {reason}. Answer again with one JSON object of "
                                        "that form and nothing else."}]


def _first(full: GroundedSchema, count: int) -> GroundedSchema:
    return replace(full, tables=full.tables[:count])


def _column_count(grounded: GroundedSchema) -> int:
    return sum(len(table.columns) for table in grounded.tables)
