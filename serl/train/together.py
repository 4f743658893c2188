"""A step whose groups lie with several ranks, seen as a whole: its metrics and its files are those of one process.

Rank 0 gets what the others have, puts it into the order of the groups' places, and computes or writes. Of one process
everything is the process's own, and nothing is copied or sent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from serl.config import Config
from serl.hindsight.facts import NOTHING
from serl.parallel import Ranks
from serl.tracking import RunFolder, guard_file
from serl.train.diagnose import choose
from serl.train.groups import Group
from serl.train.metrics import hindsight_metrics, mismatch_metrics, rollout_metrics
from serl.train.records import Piece, record, teacher_rows
from serl.train.samples import Sample

T = TypeVar("T")
Place = tuple[int, int]  # 1 for a dropped group, which comes last; its number in the step


def samples_of(groups: Iterable[Group]) -> list[Sample]:
    """The samples of all groups, behind one another."""
    return [sample for group in groups for sample in group.samples]


def regrouped(groups: Sequence[Group], samples: Sequence[Sample]) -> list[Group]:
    """The groups with what became of their samples, which are `samples`, behind one another."""
    rest = iter(samples)
    return [replace(group, samples=[next(rest) for _ in group.samples]) for group in groups]


def all_groups(ranks: Ranks, groups: Sequence[Group]) -> list[Group]:
    """The groups of all ranks in order, on every rank."""
    return _in_order(ranks.gather([((0, group.place), [group]) for group in groups]))


def first_hinted(ranks: Ranks, groups: Sequence[Group], count: int) -> list[Sample]:
    """On every rank, what `choose` takes of the samples of all ranks."""
    own, room = [], count
    for group in groups:
        chosen = choose(group.samples, room)
        own.append(((0, group.place), chosen))
        room -= len(chosen)
    return _in_order(ranks.gather(own))[:count]


def largest(ranks: Ranks, metrics: Mapping[str, float]) -> dict[str, float]:
    """Of each metric its largest value over the ranks that have it: of times and memory, those of the slowest rank."""
    rows = ranks.gather(dict(metrics))
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: max(row[name] for row in rows if name in row) for name in names}


def batch_metrics(ranks: Ranks, groups: Sequence[Group], dropped: Sequence[Group], config: Config, piece: Piece
                  ) -> dict[str, float]:
    """What the samples of all ranks say of a step, on every rank."""
    slim = _slim if ranks.size > 1 else list
    kept, late = (ranks.to_first([((0, group.place), slim(group.samples)) for group in part])
                  for part in (groups, dropped))

    def compute() -> dict[str, float]:
        batch, discarded = _in_order(kept), _in_order(late)
        return {"groups/discarded": float(len(discarded)),
                **rollout_metrics([*batch, *discarded], config.rollout.group_size), **mismatch_metrics(batch),
                **hindsight_metrics(batch, piece, config.hindsight)}

    return ranks.first(compute)


def write_trajectories(run: RunFolder, ranks: Ranks, step: int, groups: Sequence[Group], dropped: Sequence[Group],
                       seed: int, piece: Piece) -> None:
    """The step's samples as records, those of dropped groups last."""
    rows = _records(ranks, step, (groups, dropped), seed, piece)
    if rows is not None:
        run.write_trajectories(step, rows)


def write_guarded(run: RunFolder, ranks: Ranks, step: int, groups: Sequence[Group], reason: str, seed: int,
                  piece: Piece) -> Path:
    """The samples of a step that are not learned from as records, each with the reason; where they are."""
    rows = _records(ranks, step, (groups,), seed, piece)
    if rows is not None:
        run.write_guarded(step, (row | {"guard": reason} for row in rows))
    return guard_file(run.path, step)


def write_hindsight(run: RunFolder, ranks: Ranks, step: int, groups: Sequence[Group], level: str, piece: Piece) -> None:
    """What the teacher read in a step."""
    rows = ranks.to_first([((0, group.place), list(teacher_rows(group.samples, step, len(group.samples), level, piece)))
                           for group in groups])
    if rows is not None:
        run.write_hindsight(step, _in_order(rows))


def _records(ranks: Ranks, step: int, parts: Sequence[Sequence[Group]], seed: int, piece: Piece
             ) -> list[dict[str, Any]] | None:
    """Records of the samples of all ranks, those of the later part last, on rank 0."""
    rows = ranks.to_first([
        ((late, group.place), [record(sample, group.question, step, number, seed, piece)
                               for number, sample in enumerate(group.samples)])
        for late, part in enumerate(parts) for group in part])
    return None if rows is None else _in_order(rows)


def _in_order(parts: Iterable[Sequence[tuple[Place, Sequence[T]]]]) -> list[T]:
    """What all ranks have, by place."""
    rows: list[tuple[Place, Any]] = [row for part in parts for row in part]
    return [thing for _, things in sorted(rows, key=lambda row: row[0]) for thing in things]


def _slim(samples: Sequence[Sample]) -> list[Sample]:
    """Without the rows of results, and what else no metric reads: they may be many times the rest."""
    out = []
    for sample in samples:
        turns = [replace(turn, outcome=turn.outcome and replace(turn.outcome, rows=()))
                 for turn in sample.trajectory.turns]
        out.append(replace(sample, trajectory=replace(sample.trajectory, turns=turns), known=NOTHING))
    return out
