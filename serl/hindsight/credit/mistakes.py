"""Does a credit source find the mistake? Its blame for the tokens that make a sampled SQL wrong, as AUC.

Counted are the tokens of every failed final SQL that parses and differs from gold, with the token that ends it.
Wrong are those that the tree difference to gold marks, and those in whose place something is missing. Blame is −Δ.

    overall     all of these tokens
    uncertain   those of which the student held p < 0.90 (−logp > 0.1 nats): there lies nearly all that a policy can
                still learn, and a token that nobody doubted is easily told apart
    first       without the rest of each wrong span, which may only follow from how the span began

A gap is evidence only if it beats its controls on the same tokens: see `lead` in `auc.py` and `gate.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from serl.hindsight.credit.auc import Auc, estimate, lead
from serl.hindsight.credit.candidate import Candidate, Marks, marks
from serl.hindsight.credit.difference import Difference
from serl.hindsight.credit.sources import Comparer, TrainingGold

UNCERTAIN = 0.1
"""−logp_S in nats above which a token counts as uncertain: p below 0.90."""


@dataclass(frozen=True)
class Failure:
    """A failed SQL whose wrong tokens are known: place `n` of its group. `question` is what resampling goes by."""

    question: str
    group: tuple[Candidate, ...]
    n: int
    marked: Marks
    comparer: Comparer
    gold: TrainingGold

    @property
    def candidate(self) -> Candidate:
        return self.group[self.n]


@dataclass(frozen=True)
class Failures:
    """Failed samples, and how many more there were that cannot be used."""

    found: tuple[Failure, ...]
    unparsed: int  # one of the two texts cannot be read
    unexplained: int  # the tree difference to gold is empty, or there is no SQL


@dataclass(frozen=True)
class Lead:
    """A row's AUC less a control's, on the tokens that both have, with its 95% interval. None: cannot be told."""

    control: str
    value: float | None
    low: float | None
    high: float | None

    @property
    def won(self) -> bool:
        """Whether the row beats the control: its whole interval is above 0."""
        return self.low is not None and self.low > 0


@dataclass(frozen=True)
class Row:
    """One source of blame; `teacher` and `hindsight` are "" where it has none."""

    source: str
    teacher: str
    hindsight: str
    overall: Auc
    uncertain: Auc
    first: Auc
    leads: tuple[Lead, ...] = ()  # over its controls, if it is a gap that has some

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Table:
    """Rows, and the failed samples that they rest on or that had to be left out."""

    rows: tuple[Row, ...]
    samples: int
    unparsed: int
    unexplained: int
    threshold: float = UNCERTAIN

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find_failures(question: str, group: Sequence[Candidate], scored: Sequence[bool], gold: TrainingGold,
                  comparer: Comparer) -> Failures:
    """The failed samples of one question's group; `scored` is False where infrastructure failed."""
    found, unparsed, unexplained = [], 0, 0
    for n, candidate in enumerate(group):
        if candidate.correct or not scored[n]:
            continue
        difference = comparer(candidate.sql, gold.sql)
        if difference is None or (isinstance(difference, Difference) and difference.equal):
            unexplained += 1
        elif not isinstance(difference, Difference):
            unparsed += 1
        else:
            found.append(Failure(question, tuple(group), n, marks(candidate, difference), comparer, gold))
    return Failures(tuple(found), unparsed, unexplained)


class Tokens:
    """The tokens of failed solutions behind one another, [N], and what is known of each."""

    def __init__(self, failures: Sequence[Failure], student: Sequence[torch.Tensor], seed: int = 0) -> None:
        """`student` holds log-probs [T] of each failure's trajectory: which tokens are uncertain goes by them."""
        self._failures, self._seed = failures, seed
        places = [(failure, token) for failure in failures for token in failure.candidate.scope]
        self._questions_N = np.asarray([failure.question for failure, _ in places])
        self._wrong_N = np.asarray([token in failure.marked.blamed for failure, token in places], dtype=bool)
        self._follows_N = np.asarray([token in failure.marked.wrong - failure.marked.first - failure.marked.missing
                                      for failure, token in places], dtype=bool)
        self._uncertain_N = -self.flat(student) > UNCERTAIN

    def flat(self, values: Sequence[torch.Tensor]) -> np.ndarray:
        """Values [T] of each failure as [N]."""
        parts = [value[list(failure.candidate.scope)].float() for failure, value in zip(self._failures, values)]
        return torch.cat(parts).numpy() if parts else np.empty(0)

    def row(self, source: str, evidence: Sequence[torch.Tensor], teacher: str = "", hindsight: str = "",
            controls: Sequence[tuple[str, Sequence[torch.Tensor]]] = ()) -> Row | None:
        """The row of a source from its evidence Δ [T] of each failure; None where it has none for any token."""
        blame_N = -self.flat(evidence)
        known_N = np.isfinite(blame_N)
        if not known_N.any():
            return None
        return Row(source, teacher, hindsight, *(self._auc(blame_N, known_N & kept_N) for kept_N in
                                                 (known_N, self._uncertain_N, ~self._follows_N)),
                   leads=tuple(self._lead(name, blame_N, -self.flat(other)) for name, other in controls))

    def _auc(self, blame_N: np.ndarray, kept_N: np.ndarray) -> Auc:
        return estimate(blame_N[kept_N], self._wrong_N[kept_N], self._questions_N[kept_N], self._seed)

    def _lead(self, control: str, blame_N: np.ndarray, other_N: np.ndarray) -> Lead:
        both_N = np.isfinite(blame_N) & np.isfinite(other_N)
        return Lead(control, *lead(blame_N[both_N], other_N[both_N], self._wrong_N[both_N],
                                   self._questions_N[both_N], self._seed))


def joined(parts: Iterable[Failures]) -> Failures:
    """The failures of several groups."""
    parts = list(parts)
    return Failures(tuple(failure for part in parts for failure in part.found), sum(part.unparsed for part in parts),
                    sum(part.unexplained for part in parts))


def markdown(table: Table) -> str:
    """The table as Markdown: AUCs with their intervals, and for a gap the controls that it does not beat."""
    lines = [["credit source", "teacher", "hindsight", "AUC", "uncertain tokens", "first wrong tokens",
              "tokens (wrong)", "uncertain (wrong)", "questions", "does not beat"],
             ["---"] * 3 + ["---:"] * 6 + ["---"]]
    for row in table.rows:
        lost = ", ".join(each.control for each in row.leads if not each.won)
        lines.append([row.source, row.teacher, row.hindsight,
                      *map(auc_text, (row.overall, row.uncertain, row.first)),
                      *(f"{auc.tokens} ({auc.wrong})" for auc in (row.overall, row.uncertain)),
                      str(row.overall.questions), lost or ("nothing: passes" if row.leads else "")])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def auc_text(auc: Auc) -> str:
    """`0.71 (0.66–0.75)`.

    >>> auc_text(Auc(0.706, 0.66, 0.75, 900, 80, 12))
    '0.71 (0.66–0.75)'
    """
    return "–" if auc.value is None else f"{auc.value:.2f} ({auc.low:.2f}–{auc.high:.2f})"
