"""Does a credit source find the mistake? Its blame for the tokens that make a sampled SQL wrong, from a run's records.

Counted are the tokens of every failed final SQL that parses and differs from gold, with the token that ends it.
Wrong are those that the tree difference to gold marks, and those in whose place something is missing. Blame is −Δ.
Uncertain are tokens whose entropy or, where a record has none, −logp_S is above a threshold: there lies nearly
all that a policy can still learn, and a token that nobody doubted is easily told apart. In the column of first
tokens, the rest of each wrong span is left out: it may only follow from how the span began.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serl.errors import InputError
from serl.hindsight.credit.auc import Auc, estimate
from serl.hindsight.credit.candidate import Candidate, Marks, Piece, marks, of_record
from serl.hindsight.credit.difference import Difference, Schema, compare
from serl.hindsight.credit.sources import Source, entropy, sibling_contrast, surprisal, teacher_gap
from serl.io import read_jsonl

UNCERTAIN = 0.1
"""Nats: a token with p below 0.90, or a distribution of that entropy."""


@dataclass(frozen=True)
class Row:
    """One credit source."""

    source: str
    overall: Auc
    uncertain: Auc
    first: Auc

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, "overall": self.overall.to_json(), "uncertain": self.uncertain.to_json(),
                "first": self.first.to_json()}


@dataclass(frozen=True)
class Failure:
    """A failed SQL whose wrong tokens are known, in its group."""

    question: str
    group: tuple[Candidate, ...]
    n: int
    db_id: str
    marked: Marks

    @property
    def candidate(self) -> Candidate:
        return self.group[self.n]


@dataclass(frozen=True)
class Table:
    """The rows, and how many failed samples they rest on or had to leave out."""

    rows: tuple[Row, ...]
    samples: int
    unparsed: int
    unexplained: int  # the tree difference to gold is empty, or there is no SQL
    threshold: float

    def to_json(self) -> dict[str, Any]:
        return {"rows": [row.to_json() for row in self.rows], "samples": self.samples, "unparsed": self.unparsed,
                "unexplained": self.unexplained, "threshold": self.threshold}


def read_records(run: Path, last: int | None = None) -> Iterable[dict[str, Any]]:
    """Records of a run's `last` steps (None: of all)."""
    files = sorted((run / "trajectories").glob("step_*.jsonl"))
    if not files:
        raise InputError(f"run folder {run}: no trajectories/step_*.jsonl; give the folder that `serl train` wrote")
    for file in files if last is None else files[len(files) - last:]:
        yield from read_jsonl(file)


def find_mistakes(records: Iterable[Mapping[str, Any]], schemas: Mapping[str, Schema], piece: Piece,
                  extra: Mapping[str, Source] | None = None, threshold: float = UNCERTAIN, seed: int = 0) -> Table:
    """The table of all sources that the records allow.

    `schemas` by database; one that is missing makes the comparison laxer, not wrong. `extra` adds sources by name,
    such as gaps of other hindsight. A source without evidence for any token has no row.
    """
    failures, unparsed, unexplained = _failures(records, schemas, piece)
    rows = []
    for name in ("teacher_gap", "sibling_contrast", "surprisal", "entropy", *(extra or {})):
        rows += _row(name, failures, schemas, extra or {}, threshold, seed)
    return Table(tuple(rows), len(failures), unparsed, unexplained, threshold)


def markdown(table: Table) -> str:
    """The table as Markdown, AUC with its interval."""
    lines = [["credit source", "AUC", "uncertain tokens", "first wrong tokens", "tokens (wrong)", "uncertain (wrong)",
              "questions"], ["---", *["---:"] * 6]]
    for row in table.rows:
        lines.append([row.source, *map(auc_text, (row.overall, row.uncertain, row.first)),
                      *(f"{auc.tokens} ({auc.wrong})" for auc in (row.overall, row.uncertain)),
                      str(row.overall.questions)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def auc_text(auc: Auc) -> str:
    """`0.71 (0.66–0.75)`.

    >>> auc_text(Auc(0.706, 0.66, 0.75, 900, 80, 12))
    '0.71 (0.66–0.75)'
    """
    return "–" if auc.value is None else f"{auc.value:.2f} ({auc.low:.2f}–{auc.high:.2f})"


def _failures(records: Iterable[Mapping[str, Any]], schemas: Mapping[str, Schema], piece: Piece
              ) -> tuple[list[Failure], int, int]:
    groups: dict[tuple[int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        groups[record["step"], record["question_id"]].append(record)
    failures, unparsed, unexplained = [], 0, 0
    for members in groups.values():
        group = tuple(of_record(record, piece) for record in members)
        for n, (candidate, record) in enumerate(zip(group, members)):
            if candidate.correct or record["reward"] is None:
                continue
            difference = None if candidate.sql is None else compare(candidate.sql, record["gold_sql"],
                                                                    schemas.get(record["db_id"]))
            if difference is None or (isinstance(difference, Difference) and difference.equal):
                unexplained += 1
            elif not isinstance(difference, Difference):
                unparsed += 1
            else:
                marked = marks(candidate, difference)
                failures.append(Failure(record["question_id"], group, n, record["db_id"], marked))
    return failures, unparsed, unexplained


def _row(name: str, failures: Sequence[Failure], schemas: Mapping[str, Schema], extra: Mapping[str, Source],
         threshold: float, seed: int) -> list[Row]:
    plain = {"teacher_gap": teacher_gap, "surprisal": surprisal, "entropy": entropy, **extra}
    siblings: dict[str, Source] = {}
    scores, wrong, questions, doubted, follows = [], [], [], [], []
    for failure in failures:
        if name == "sibling_contrast":
            if failure.db_id not in siblings:
                siblings[failure.db_id] = sibling_contrast(schemas.get(failure.db_id))
            source = siblings[failure.db_id]
        else:
            source = plain[name]
        marked = failure.marked
        evidence_T = source(failure.group, failure.n)
        doubt_T = _doubt(failure.candidate)
        for token in failure.candidate.scope:
            evidence = float(evidence_T[token])
            if math.isfinite(evidence):
                scores.append(-evidence)
                wrong.append(token in marked.wrong or token in marked.missing)
                questions.append(failure.question)
                doubted.append(doubt_T is not None and float(doubt_T[token]) > threshold)
                follows.append(token in marked.wrong and token not in marked.first and token not in marked.missing)
    if not scores:
        return []

    def over(kept: Sequence[bool]) -> Auc:
        parts = [list(itertools.compress(values, kept)) for values in (scores, wrong, questions)]
        return estimate(*parts, seed)

    return [Row(name, over([True] * len(scores)), over(doubted), over([not each for each in follows]))]


def _doubt(candidate: Candidate):
    if candidate.entropy_T is not None:
        return candidate.entropy_T
    return None if candidate.student_T is None else -candidate.student_T
