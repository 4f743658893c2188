"""`grounding eval`: value recall and schema links of a data set, as one document and as tables for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from grounding.evaluate.gold import GoldUse, UnresolvedSql, read_gold
from grounding.evaluate.grid import REASONING, Grid, Row, as_table
from grounding.evaluate.questions import Question, Split
from grounding.evaluate.targets import databases_of, value_items
from grounding.evaluate.value_task import CUTS, Item, Recall, as_rows, recall
from grounding.evaluate.value_task import Found as Value
from grounding.grounded import MODES, Request
from grounding.grounder import REQUESTS_A_BATCH, Found, Grounder

REQUESTS = 64  # grounded between two steps of the progress bar


@dataclass(frozen=True)
class Report:
    """Value recall by kind and cut, link measures by links and budget, what was counted, and the value task's items."""

    values: dict[str, dict[int, Recall]]
    rows: list[Row]
    counts: dict[str, int]
    items: list[Item]

    @property
    def links(self) -> dict[str, Recall]:
        """The measures of hybrid links, with those that a model named if one was asked, within no budget."""
        measures = {row.links: row.measures for row in self.rows if row.budget is None}
        return measures.get(REASONING, measures.get("hybrid", {}))

    def to_json(self) -> dict:
        return {
            "values": {kind: {str(cut): asdict(each) for cut, each in by_cut.items()}
                       for kind, by_cut in self.values.items()},
            "links": {name: asdict(each) for name, each in self.links.items()},
            "rows": [row.to_json() for row in self.rows],
            "counts": self.counts,
        }

    def for_people(self) -> str:
        """Percent, with 95% intervals."""
        lines = [f"{'values':24s}{'targets':>8s}  " + "  ".join(f"{f'recall@{cut}':20s}" for cut in CUTS)]
        for kind, targets, *cells in as_rows(self.values):
            lines.append(f"{kind:24s}{targets:>8s}  " + "  ".join(f"{cell:20s}" for cell in cells))
        if self.links:
            lines += ["", f"{'links':24s}{'questions':>10s}"]
            lines += [f"{name:24s}{each.targets:>10d}  {each.in_percent()}" for name, each in self.links.items()
                      if name != "tokens"]
        if self.rows:
            lines += ["", *as_table(self.rows)]
        return "\n".join([*lines, "", *(f"{count:6d}  {what}" for what, count in self.counts.items())])


def evaluate_split(split: Split, grounder: Grounder, style: str = "compact", modes: Sequence[str] = MODES,
                   budgets: Sequence[int | None] = (None,), tables_json: Path | None = None) -> Report:
    """Links of every question whose gold is resolved, and recall of the value targets that gold holds.

    `tables_json` documents the databases; None looks for it where the data set has it.
    """
    databases = databases_of(split.questions)
    items, fates = value_items(split.questions, databases)
    gold = [(question, use) for question in split.questions if (use := _use(question, databases)) is not None]
    grid = Grid(grounder, modes, budgets, style)
    counts = Counter({"question: database is missing": sum(split.missing.values())}) + fates
    values: dict[tuple, list[Value]] = {}
    requests = [Request(q.question, q.database, q.evidence, tables_json=tables_json) for q, _ in gold]
    for (question, use), found in zip(gold, look_up(grounder, requests)):
        grid.add(found, use)
        counts.update(_count_reasoning(found))
        values[question.question, question.evidence, question.database] = _values(found)
    rankings = [values[item.question, item.evidence, item.database] for item in items]
    return Report(recall(items, rankings) if items else {}, grid.rows(), dict(counts), items)


def evaluate_task(items: Sequence[Item], grounder: Grounder, tables_json: Path | None = None) -> Report:
    """Recall of the value targets of a task file."""
    requests = [Request(item.question, item.database, item.evidence, tables_json=tables_json) for item in items]
    rankings = [_values(found) for found in look_up(grounder, requests)]
    return Report(recall(items, rankings), [], {"questions": len(items)}, list(items))


def look_up(grounder: Grounder, requests: Sequence[Request]) -> Iterator[Found]:
    """What is found for each request, the first values whatever their score among it."""
    from tqdm import tqdm

    size = REQUESTS_A_BATCH if grounder.reasons else REQUESTS  # a model is asked many questions at a time
    with tqdm(total=len(requests), unit="question", desc="grounding") as bar:
        for start in range(0, len(requests), size):
            for found in grounder.look_up(requests[start : start + size], max(CUTS)):
                bar.update()  # before it is given: nobody may come back after the last
                yield found


def _values(found: Found) -> list[Value]:
    return [(match.table, match.column, match.value) for match in found.ranking]


def _count_reasoning(found: Found) -> dict[str, int]:
    if found.reasoned is None:
        return {}
    return {"reasoning: asked": 1, "reasoning: no usable answer, linked without": int(found.reasoned.links is None),
            "reasoning: shown a part of the schema": int(found.reasoned.is_partial)}


def _use(question: Question, databases: dict) -> GoldUse | None:
    try:
        return read_gold(question.gold_sql, databases[question.db_id])
    except UnresolvedSql:
        return None
