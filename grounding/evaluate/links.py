"""Schema links against gold: what of a statement's tables and columns is kept, at what price in tokens.

Per question, with G the gold and K the kept tables or columns: recall |G∩K|/|G|, precision |G∩K|/|K|, and strict
recall, 1 where G ⊆ K, since one missing column is enough for a wrong answer. Tokens are words and signs of the rendered
schema; `saved` is the share of the full schema's tokens that the kept one does without.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from grounding.evaluate.gold import GoldUse
from grounding.evaluate.value_task import Recall, ratio
from grounding.grounded import GroundedSchema, LinkedColumn, LinkedTable
from grounding.render import render_schema

_TOKEN = re.compile(r"\w+|[^\w\s]")
MEASURES = ("table recall", "table recall, strict", "table precision", "column recall", "column recall, strict",
            "column precision", "tokens saved")


def count_tokens(text: str) -> int:
    """Words and signs: near what a model's tokenizer counts, and the same for everybody."""
    return len(_TOKEN.findall(text))


def link_scores(grounded: GroundedSchema, gold: GoldUse, full_tokens: int, style: str) -> dict[str, float]:
    """The measures of one question; those of columns are absent where gold names none."""
    tables = {table.name.lower() for table in grounded.tables}
    columns = {(table.name.lower(), column.name.lower()) for table in grounded.tables for column in table.columns}
    scores = {}
    for what, wanted, kept in (("table", gold.tables, tables), ("column", gold.columns, columns)):
        if wanted:
            found = len(wanted & kept)
            scores |= {f"{what} recall": found / len(wanted), f"{what} recall, strict": float(found == len(wanted)),
                       f"{what} precision": found / len(kept)}
    kept_tokens = count_tokens(render_schema(grounded, style))
    return scores | {"tokens saved": 1 - kept_tokens / full_tokens}


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
