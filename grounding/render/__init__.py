"""S' as prompt text, in two styles, deterministic and within a budget of tokens.

    compact   race(id int pk, name text = 'Monaco GP', status text: F finished; R retired, circuit_id int -> circuit.id)
    ddl       CREATE TABLE statements that SQLite accepts; descriptions, samples and matched values as comments

    GroundedSchema ── shown.py ──▶ tables whose every text is harmless ── budget.py ──▶ what fits ── style ──▶ text

In both styles `=` or `matches` marks the values that the question may mean, `e.g.` frequent ones, and `inferred` a
foreign key that nobody declared. Names and literals are written so that SQL that copies them is right; where a name
cannot be, since it would forge a control token, the prompt says `name altered` and `altered_names` tells the user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grounding.budget import estimate_tokens, removal_order, without
from grounding.errors import InputError
from grounding.grounded import GroundedSchema
from grounding.render.budget import fit
from grounding.render.compact import write_compact
from grounding.render.ddl import write_ddl
from grounding.render.names import Names
from grounding.render.shown import Shown, prepare
from grounding.schema import Database

_STYLES: dict[str, Callable[[Sequence[Shown]], str]] = {"compact": write_compact, "ddl": write_ddl}


def render_schema(
    grounded: GroundedSchema,
    style: str = "compact",
    budget: int | None = None,
    count_tokens: Callable[[str], int] = estimate_tokens,
    samples: int = 0,
) -> str:
    """The schema as text of at most `budget` tokens by `count_tokens` (None: no limit).

    `samples` frequent values are shown for text columns that the question gives evidence for and that no value
    matched. Raises InputError for an unknown style, and where not even one column fits the budget.
    """
    return fit_schema(grounded, style, budget, count_tokens, samples)[0]


def fit_schema(
    grounded: GroundedSchema,
    style: str = "compact",
    budget: int | None = None,
    count_tokens: Callable[[str], int] = estimate_tokens,
    samples: int = 0,
) -> tuple[str, GroundedSchema]:
    """The text of `render_schema`, and S' with the tables and columns that it shows."""
    if style not in _STYLES:
        raise InputError(f"schema style {style!r} is unknown; use one of {', '.join(_STYLES)}")
    tables = prepare(grounded, samples)
    fitted = fit(tables, removal_order(grounded), _STYLES[style], budget, count_tokens)
    if fitted is None:
        raise InputError(f"{grounded.database.path}: no column of the schema fits {budget} tokens; raise the budget")
    text, gone = fitted
    return text, without(grounded, set(gone))


def altered_names(database: Database) -> tuple[str, ...]:
    """One line for each name that a prompt cannot show as it is stored: SQL that copies it does not find it."""
    names = Names(database)
    lines = []
    for table in database.tables:
        if names.is_altered(table.name):
            lines.append(f"table {table.name!r} is shown as {names.table(table.name)}")
        lines += [
            f"column {column.name!r} of table {table.name!r} is shown as {names.column(table.name, column.name)}"
            for column in table.columns
            if names.is_altered(column.name)
        ]
    return tuple(f"{line}, since it would forge control text; rename it, or use a view" for line in lines)
