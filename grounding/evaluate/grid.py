"""Schema links by what makes them and by budget: one row each, over the same questions.

    hybrid, hybrid+reasoning    what the words and values of a question link; and what a model names besides
    oracle                      what gold uses and the keys of its tables: a perfect linker's
    full                        everything, the linked first: what a budget alone does

Each question is looked up once, and asked of the model once, for all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from grounding.evaluate.gold import GoldUse
from grounding.evaluate.links import full_schema_tokens, link_scores, summarize
from grounding.evaluate.value_task import Recall
from grounding.grounded import GroundedSchema
from grounding.grounder import Found, Grounder

REASONING = "hybrid+reasoning"
COLUMNS = {"table recall": "table R", "table recall, strict": "strict", "table precision": "P",
           "column recall": "column R", "column recall, strict": "strict", "column precision": "P",
           "tokens saved": "saved"}


@dataclass(frozen=True)
class Row:
    links: str
    budget: int | None
    measures: dict[str, Recall]

    def to_json(self) -> dict:
        measures = {name: asdict(each) for name, each in self.measures.items()}
        return {"links": self.links, "budget": self.budget, "measures": measures}


class Grid:
    """Scores that grow question by question."""

    def __init__(self, grounder: Grounder, modes: Sequence[str], budgets: Sequence[int | None], style: str):
        self._grounder, self._style = grounder, style
        names = [name for mode in modes for name in ((mode, REASONING) if mode == "hybrid" else (mode,))]
        self._names = [name for name in names if name != REASONING or grounder.reasons]
        self._scores: dict[tuple[str, int | None], list[dict[str, float]]] = {
            (name, budget): [] for name in self._names for budget in budgets}
        self._full_tokens: dict[str, int] = {}

    def add(self, found: Found, use: GoldUse) -> None:
        """Scores a question, whose gold uses `use`, in every row."""
        schemas = {name: self._link(found, use, name) for name in self._names}
        database = next(iter(schemas.values())).database
        if str(database.path) not in self._full_tokens:
            self._full_tokens[str(database.path)] = full_schema_tokens(next(iter(schemas.values())), self._style)
        full = self._full_tokens[str(database.path)]
        for (name, budget), scores in self._scores.items():
            scores.append(link_scores(schemas[name], use, full, self._style, budget))

    def rows(self) -> list[Row]:
        return [Row(name, budget, summarize(scores)) for (name, budget), scores in self._scores.items()]

    def _link(self, found: Found, use: GoldUse, name: str) -> GroundedSchema:
        if name == "oracle":
            found = replace(found, request=replace(found.request, gold_links=use.links))
        if name == "hybrid":
            found = replace(found, reasoned=None)
        mode = "hybrid" if name == REASONING else name
        return self._grounder.link(found, replace(self._grounder.config, mode=mode))


def as_table(rows: Sequence[Row]) -> list[str]:
    """One line a row: means in percent, and tokens; the intervals are in the document."""
    head = f"{'links':18s}{'budget':>8s}" + "".join(f"{short:>10s}" for short in COLUMNS.values()) + f"{'tokens':>8s}"
    lines = [head]
    for row in rows:
        cells = "".join(f"{100 * row.measures[name].value:10.1f}" for name in COLUMNS)
        budget = "none" if row.budget is None else str(row.budget)
        lines.append(f"{row.links:18s}{budget:>8s}{cells}{row.measures['tokens'].value:8.0f}")
    return lines
