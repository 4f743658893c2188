"""Value retrieval as a task: for each question, the stored values that gold SQL compares a column with.

A task file has one JSON document a line:

    {"question", "evidence", "db", "targets": [{"table", "column", "value", "accept", "match_type"}, ...]}

`db` is the SQLite file's path below the task's root; `accept` holds the spellings that count as the value.
`match_type` is the kind: verbatim, case-differs, morph/typo (inflected or misspelt), synonym/abbr, short<=2 (two
characters or fewer), number-like. A retrieved (table, column, value) hits a target strictly: all three are right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from grounding.errors import InputError
from grounding.io import atomic_write_text, read_jsonl
from grounding.sqlite import fold_name

Found = tuple[str, str, str]
"""(table, column, value) as retrieved."""

CUTS = (1, 5, 10, 20)
RESAMPLES = 2000


@dataclass(frozen=True)
class Target:
    """A value to be found; names are by `fold_name`, the value is compared exactly with each of `accept`."""

    table: str
    column: str
    accept: frozenset[str]
    kind: str

    def is_hit_by(self, found: Found) -> bool:
        table, column, value = found
        return (fold_name(table), fold_name(column)) == (self.table, self.column) and value in self.accept


@dataclass(frozen=True)
class Item:
    """A question about a database, and what should be found for it."""

    question: str
    evidence: str
    database: Path
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Recall:
    """Share of targets found among the first k, with the ends of its 95% interval, over `targets` targets."""

    value: float
    low: float
    high: float
    targets: int

    def in_percent(self) -> str:
        return f"{100 * self.value:.1f} ({100 * self.low:.1f}–{100 * self.high:.1f})"


def read_task(path: Path, root: Path) -> list[Item]:
    """The items of a task file; InputError names the line that is wrong, or a database that is not below `root`."""
    items = []
    for number, row in read_jsonl(path):
        try:
            targets = tuple(Target(fold_name(target["table"]), fold_name(target["column"]),
                                   frozenset(target["accept"]), target["match_type"]) for target in row["targets"])
            item = Item(row["question"], row.get("evidence", ""), root / row["db"], targets)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}, line {number}: not an item of a value task ({error!r})") from error
        if not item.database.is_file():
            raise InputError(f"{path}, line {number}: no database {item.database}")
        items.append(item)
    return items


def write_task(path: Path, items: Sequence[Item], root: Path) -> None:
    """Writes items as a task file; their databases are named from `root`."""
    rows = []
    for item in items:
        if not item.database.is_relative_to(root):
            raise InputError(f"{item.database}: not below {root}, and a task names its databases from there")
        targets = [{"table": target.table, "column": target.column, "value": min(target.accept),
                    "accept": sorted(target.accept), "match_type": target.kind} for target in item.targets]
        rows.append({"question": item.question, "evidence": item.evidence,
                     "db": str(item.database.relative_to(root)), "targets": targets})
    atomic_write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def recall(items: Sequence[Item], found: Sequence[Sequence[Found]], cuts: Sequence[int] = CUTS, seed: int = 0
           ) -> dict[str, dict[int, Recall]]:
    """Recall at each cut by kind, and under `all`; `found` is each item's ranking, best first.

    Intervals are percentile bootstraps over items, since the targets of a question stand and fall together.
    """
    ranks = [[_rank(target, ranking) for target in item.targets] for item, ranking in zip(items, found, strict=True)]
    kinds = ["all", *dict.fromkeys(target.kind for item in items for target in item.targets)]
    out: dict[str, dict[int, Recall]] = {}
    for kind in kinds:
        chosen = [[rank for rank, target in zip(own, item.targets) if kind in ("all", target.kind)]
                  for own, item in zip(ranks, items)]
        out[kind] = {cut: _recall([own for own in chosen if own], cut, seed) for cut in cuts}
    return out


def _rank(target: Target, ranking: Sequence[Found]) -> float:
    """Place of the first hit from 1; infinite: none."""
    return next((place for place, found in enumerate(ranking, 1) if target.is_hit_by(found)), np.inf)


def _recall(ranks: Sequence[Sequence[float]], cut: int, seed: int) -> Recall:
    return ratio([sum(rank <= cut for rank in own) for own in ranks], [len(own) for own in ranks], seed)


def ratio(sums: Sequence[float], sizes: Sequence[int], seed: int) -> Recall:
    """Σ sums / Σ sizes over the units that are resampled; one unit at least."""
    sum_I, size_I = np.array(sums, dtype=np.float64), np.array(sizes, dtype=np.float64)
    draws = np.random.default_rng(seed)  # one resample at a time: a large split's would be gigabytes together
    picks = (draws.integers(0, len(sum_I), len(sum_I)) for _ in range(RESAMPLES))
    low, high = np.percentile([sum_I[pick].sum() / size_I[pick].sum() for pick in picks], [2.5, 97.5])
    return Recall(float(sum_I.sum() / size_I.sum()), float(low), float(high), int(size_I.sum()))


def as_rows(recalls: Mapping[str, Mapping[int, Recall]]) -> list[list[str]]:
    """A table: kind, targets, one column a cut, in percent."""
    rows = []
    for kind, by_cut in recalls.items():
        cells = [each.in_percent() for each in by_cut.values()]
        rows.append([kind, str(next(iter(by_cut.values())).targets), *cells])
    return rows
