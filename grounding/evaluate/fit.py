"""Learns the weights of retrieval's linear score, and shows what each group of features is worth.

    python -m grounding.evaluate.fit --root SPIDER --cache DIR [--encoder none] [--ablate] [--write]

For every target t of a training question, with P_t the cells that hit it and N the question's cells that hit no
target, the loss is a conditional logit over the target's first hit and N (McFadden, 1974), so that the targets of a
question do not compete:

    L(w) = −Σ_t log( exp(w·φ(p_t)) / (exp(w·φ(p_t)) + Σ_{n∈N} exp(w·φ(n))) ) + λ/2 ‖w∘σ‖²,   σ: features' deviations

It is convex, and its one minimum does not depend on a seed. Databases are split in two halves by a hash of their names:
weights are chosen on `tune` and looked at on `check`. What is written is fitted on both. Questions about databases of
the dev split are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np

from grounding.evaluate.questions import read_split
from grounding.evaluate.targets import databases_of, value_items
from grounding.evaluate.value_task import CUTS, Item, as_rows, recall
from grounding.grounded import Request
from grounding.grounder import Grounder
from grounding.retrieve import describe
from grounding.retrieve.features import FEATURES, GROUPS

PENALTY = 10.0  # λ; of 0.3, 1, 3, 10, 30, 100 the best when each half is fitted and looked at on the other
WEIGHTS = Path(__file__).parents[1] / "retrieve" / "weights.py"


@dataclass(frozen=True)
class Described:
    """A question's cells and their features."""

    item: Item
    cells: list[tuple[str, str, str]]
    features_NF: np.ndarray

    @property
    def hits(self) -> list[list[int]]:
        """By target, the rows that hit it."""
        return [[row for row, cell in enumerate(self.cells) if target.is_hit_by(cell)] for target in self.item.targets]


def describe_items(items: Sequence[Item], grounder: Grounder, progress: bool = True) -> list[Described]:
    """Cells and features of each item."""
    from tqdm import tqdm

    asked = grounder.ask([Request(item.question, item.database, item.evidence) for item in items])
    out = []
    for item, each in zip(tqdm(items, "describing", unit="question", disable=not progress), asked):
        opened = grounder.open_all(item.database)
        _, cells, features_NF = describe(opened.index, opened.profile, each)
        out.append(Described(item, [(cell.table, cell.column, cell.text) for _, cell in cells], features_NF))
    return out


def fit(described: Sequence[Described], columns: Sequence[int] | None = None, penalty: float = PENALTY) -> np.ndarray:
    """Weights [FEATURES]; those of features outside `columns` are 0."""
    from scipy.optimize import minimize

    columns = list(range(len(FEATURES)) if columns is None else columns)
    choices = [choice[:, columns] for each in described for choice in _choices(each)]
    sizes = np.array([len(choice) for choice in choices])
    starts, owner = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)
    rows_RF = np.concatenate(choices)
    deviation_F = rows_RF.std(0)
    deviation_F[deviation_F == 0] = 1.0
    rows_RF = rows_RF / deviation_F

    def loss(weights_F: np.ndarray) -> tuple[float, np.ndarray]:
        scores_R = rows_RF @ weights_F
        scores_R = scores_R - np.maximum.reduceat(scores_R, starts)[owner]
        chances_R = np.exp(scores_R)
        totals = np.add.reduceat(chances_R, starts)
        value = (np.log(totals) - scores_R[starts]).sum() + penalty / 2 * weights_F @ weights_F
        gradient_F = rows_RF.T @ (chances_R / totals[owner]) - rows_RF[starts].sum(0) + penalty * weights_F
        return value, gradient_F

    weights = np.zeros(len(FEATURES))
    weights[columns] = minimize(loss, np.zeros(len(columns)), jac=True, method="L-BFGS-B").x / deviation_F
    return weights


def _choices(described: Described) -> list[np.ndarray]:
    """For each target that can be hit, its row first, then the rows that hit nothing."""
    hits = described.hits
    hit = {row for rows in hits for row in rows}
    others = [row for row in range(len(described.cells)) if row not in hit]
    return [described.features_NF[[rows[0], *others]] for rows in hits if rows and others]


def ranked(described: Sequence[Described], weights_F: np.ndarray) -> list[list[tuple[str, str, str]]]:
    """Each question's cells, best first."""
    return [[each.cells[row] for row in np.argsort(-(each.features_NF @ weights_F), kind="stable")]
            for each in described]


def halves(described: Sequence[Described]) -> tuple[list[Described], list[Described]]:
    """(tune, check) by database."""
    parts: tuple[list[Described], list[Described]] = ([], [])
    for each in described:
        parts[crc32(each.item.database.stem.encode()) % 2].append(each)
    return parts


def _show(title: str, described: Sequence[Described], weights_F: np.ndarray, kinds: bool = True) -> None:
    rows = as_rows(recall([each.item for each in described], ranked(described, weights_F)))
    for row in rows if kinds else rows[:1]:
        print(f"{title:24s}{row[0]:14s}{row[1]:>6s}  " + "  ".join(f"{cell:20s}" for cell in row[2:]), flush=True)


def _write(weights: dict[str, np.ndarray], command: str) -> None:
    lines = ['"""Weights of retrieval\'s linear score, by feature, as learnt by', "", f"    {command}", '"""', ""]
    for name, values in weights.items():
        lines += [f"{name} = {{", *(f'    "{feature}": {value:.4f},' for feature, value in zip(FEATURES, values)), "}"]
    WEIGHTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m grounding.evaluate.fit", description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, required=True, help="Spider's folder")
    parser.add_argument("--cache", type=Path, default=Path(".cache/grounding"), help="default: %(default)s")
    parser.add_argument("--leave-out", nargs="*", default=[], metavar="DB", help="databases to leave out, to save time")
    parser.add_argument("--encoders", nargs="+", default=["none", "minilm"], help="default: both, as --write needs")
    parser.add_argument("--ablate", action="store_true", help="show recall without each group of features")
    parser.add_argument("--write", action="store_true", help=f"write {WEIGHTS.name}")
    options = parser.parse_args(arguments)
    questions = read_split("spider", options.root, "train").questions
    unseen = {question.db_id for question in read_split("spider", options.root, "dev").questions}
    questions = [each for each in questions if each.db_id not in unseen.union(options.leave_out)]
    items, _ = value_items(questions, databases_of(questions))
    weights = {}
    for encoder in options.encoders:
        described = describe_items(items, Grounder(options.cache, encoder, progress=True))
        tune, check = halves(described)
        chosen = fit(tune)
        print(f"\n{encoder}: recall at {CUTS}")
        _show("tune", tune, chosen)
        _show("check", check, chosen)
        for group, names in GROUPS.items() if options.ablate else ():
            kept = [i for i, name in enumerate(FEATURES) if name not in names]
            _show(f"check, no {group}", check, fit(tune, kept), kinds=False)
        weights["LEXICAL" if encoder == "none" else "DENSE"] = fit(described)
    if options.write:
        left_out = f" --leave-out {' '.join(options.leave_out)}" if options.leave_out else ""
        _write(weights, f"python -m grounding.evaluate.fit --root SPIDER{left_out} --write")
    return 0


if __name__ == "__main__":
    sys.exit(main())
