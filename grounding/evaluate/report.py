"""`grounding eval`: value recall and schema links of a data set, as one document and as tables for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from grounding.evaluate.gold import GoldUse, UnresolvedSql, read_gold
from grounding.evaluate.links import full_schema_tokens, link_scores, summarize
from grounding.evaluate.questions import Question, Split
from grounding.evaluate.targets import databases_of, value_items
from grounding.evaluate.value_task import CUTS, Found, Item, Recall, as_rows, recall
from grounding.grounded import GroundedSchema, Request
from grounding.grounder import Grounder

REQUESTS = 64  # grounded between two steps of the progress bar


@dataclass(frozen=True)
class Report:
    """Value recall by kind and cut, link measures by name, what was counted, and the items of the value task."""

    values: dict[str, dict[int, Recall]]
    links: dict[str, Recall]
    counts: dict[str, int]
    items: list[Item]

    def to_json(self) -> dict:
        return {
            "values": {kind: {str(cut): asdict(each) for cut, each in by_cut.items()}
                       for kind, by_cut in self.values.items()},
            "links": {name: asdict(each) for name, each in self.links.items()},
            "counts": self.counts,
        }

    def for_people(self) -> str:
        """Percent, with 95% intervals."""
        lines = [f"{'values':24s}{'targets':>8s}  " + "  ".join(f"{f'recall@{cut}':20s}" for cut in CUTS)]
        for kind, targets, *cells in as_rows(self.values):
            lines.append(f"{kind:24s}{targets:>8s}  " + "  ".join(f"{cell:20s}" for cell in cells))
        if self.links:
            lines += ["", f"{'links':24s}{'questions':>10s}"]
            lines += [f"{name:24s}{each.targets:>10d}  {each.in_percent()}" for name, each in self.links.items()]
        return "\n".join([*lines, "", *(f"{count:6d}  {what}" for what, count in self.counts.items())])


def evaluate_split(split: Split, grounder: Grounder, style: str = "compact") -> Report:
    """Links of every question whose gold is resolved, and recall of the value targets that gold holds."""
    databases = databases_of(split.questions)
    items, fates = value_items(split.questions, databases)
    gold = [(question, use) for question in split.questions if (use := _use(question, databases)) is not None]
    full_tokens: dict[str, int] = {}
    scores, found = [], {}
    grounded = ground(grounder, [Request(q.question, q.database, q.evidence) for q, _ in gold])
    for (question, use), (shown, values) in zip(gold, grounded):
        if question.db_id not in full_tokens:
            full_tokens[question.db_id] = full_schema_tokens(shown, style)
        scores.append(link_scores(shown, use, full_tokens[question.db_id], style))
        found[question.question, question.evidence, question.database] = values
    rankings = [found[item.question, item.evidence, item.database] for item in items]
    counts = Counter({"question: database is missing": sum(split.missing.values())}) + fates
    return Report(recall(items, rankings) if items else {}, summarize(scores), dict(counts), items)


def evaluate_task(items: Sequence[Item], grounder: Grounder) -> Report:
    """Recall of the value targets of a task file."""
    requests = [Request(item.question, item.database, item.evidence) for item in items]
    rankings = [values for _, values in ground(grounder, requests)]
    return Report(recall(items, rankings), {}, {"questions": len(items)}, list(items))


def ground(grounder: Grounder, requests: Sequence[Request]) -> Iterator[tuple[GroundedSchema, list[Found]]]:
    """The schema as the grounder's config shows it, and the first values whatever their score."""
    from tqdm import tqdm

    with tqdm(total=len(requests), unit="question", desc="grounding") as bar:
        for start in range(0, len(requests), REQUESTS):
            part = requests[start : start + REQUESTS]
            for grounded, ranking in grounder.rank_many(part, max(CUTS)):
                yield grounded, [(match.table, match.column, match.value) for match in ranking]
            bar.update(len(part))


def _use(question: Question, databases: dict) -> GoldUse | None:
    try:
        return read_gold(question.gold_sql, databases[question.db_id])
    except UnresolvedSql:
        return None
