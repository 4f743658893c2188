"""Schema links against gold: what of a statement's tables and columns is shown, at what price in tokens.

Per question, with G the gold and K the tables or columns that the rendered schema shows: recall |G∩K|/|G|, precision
|G∩K|/|K|, and strict recall, 1 where G ⊆ K, since one missing column is enough for a wrong answer. Tokens are words and
signs of the rendered schema; `saved` is the share of the full schema's tokens that it does without.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from grounding.evaluate.gold import GoldUse
from grounding.evaluate.value_task import Recall, ratio
from grounding.grounded import GroundedSchema, LinkedColumn, LinkedTable
from grounding.render import fit_schema, render_schema
from grounding.sqlite import fold_name

_TOKEN = re.compile(r"\w+|[^\w\s]")
MEASURES = ("table recall", "table recall, strict", "table precision", "column recall", "column recall, strict",
            "column precision", "tokens saved", "tokens")


def count_tokens(text: str) -> int:
    """Words and signs: near what a model's tokenizer counts, and the same for everybody."""
    return len(_TOKEN.findall(text))


def link_scores(
    grounded: GroundedSchema, gold: GoldUse, full_tokens: int, style: str, budget: int | None = None
) -> dict[str, float]:
    """The measures of one question, of what a budget of tokens leaves; those of columns are absent where gold names
    none."""
    text, shown = fit_schema(grounded, style, budget, count_tokens)
    tables = {fold_name(table.name) for table in shown.tables}
    columns = {(fold_name(table.name), fold_name(column.name)) for table in shown.tables for column in table.columns}
    scores = {}
    for what, wanted, kept in (("table", gold.tables, tables), ("column", gold.columns, columns)):
        if wanted:
            found = len(wanted & kept)
            scores |= {f"{what} recall": found / len(wanted), f"{what} recall, strict": float(found == len(wanted)),
                       f"{what} precision": found / len(kept)}
    tokens = count_tokens(text)
    return scores | {"tokens saved": 1 - tokens / full_tokens, "tokens": float(tokens)}


def full_schema_tokens(grounded: GroundedSchema, style: str) -> int:
    """Tokens of the whole database's schema without matched values."""
    tables = tuple(LinkedTable(table.name, tuple(LinkedColumn(column.name, ("full",)) for column in table.columns))
                   for table in grounded.database.tables)
    return count_tokens(render_schema(GroundedSchema(grounded.database, tables, ()), style))


def summarize(scores: Sequence[Mapping[str, float]], seed: int = 0) -> dict[str, Recall]:
    """Means over questions with the ends of their 95% percentile-bootstrap intervals."""
    return {name: mean_of([each[name] for each in scores if name in each], seed) for name in MEASURES}


def mean_of(values: Sequence[float], seed: int = 0) -> Recall:
    if not values:
        return Recall(float("nan"), float("nan"), float("nan"), 0)
    return ratio(values, [1] * len(values), seed)
