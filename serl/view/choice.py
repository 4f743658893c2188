"""Which trajectories of a run its page holds: whole groups, of steps spread over the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serl.errors import InputError
from serl.io import read_jsonl
from serl.tracking import trajectory_file

Row = Mapping[str, Any]
Group = list[Row]

TRAJECTORIES = 2000
"""About how many a page holds unless it is told otherwise."""
LEAST_STEPS = 8
"""Where a step has more trajectories than would leave room for this many steps, only its first groups are taken."""


@dataclass(frozen=True)
class Choice:
    """The steps of a run that a page shows, at most how many trajectories of each, and how many there are in all."""

    files: Mapping[int, Path]
    each: int
    recorded: int

    def groups(self) -> Iterator[Group]:
        """The groups in order. Always whole ones: the last of a step may go over the limit of the step."""
        for file in self.files.values():
            taken = 0
            for group in groups_of(read_jsonl(file)):
                if taken >= self.each:
                    break
                taken += len(group)
                yield group


def choose(run_dir: Path, steps: Sequence[int] | None = None, limit: int = TRAJECTORIES) -> Choice:
    """All trajectories of `steps`, or about `limit` of steps spread evenly over the run, its first and last included.

    InputError where RUN has no trajectories of a step that is asked for.
    """
    found = sorted((run_dir / "trajectories").glob("step_*.jsonl"))
    files = {int(path.stem.removeprefix("step_")): path for path in found}
    counts = {step: _lines(path) for step, path in files.items()}
    recorded = sum(counts.values())
    if steps is not None:
        for step in steps:
            if step not in files:
                raise InputError(f"{trajectory_file(run_dir, step)}: no such file; the run has recorded "
                                 f"{f'steps {min(files)} to {max(files)}' if files else 'no step'}")
        return Choice({step: files[step] for step in sorted(set(steps))}, recorded, recorded)
    if recorded <= limit:
        return Choice(files, recorded, recorded)
    most = max(counts.values())
    count = min(len(files), max(LEAST_STEPS, limit // most))
    chosen = [list(files)[place] for place in spread(len(files), count)]
    return Choice({step: files[step] for step in chosen}, max(1, limit // count), recorded)


def spread(length: int, count: int) -> list[int]:
    """`count` ≤ `length` places spread evenly over 0 … length − 1, both ends included; one place is the last.

    >>> spread(10, 4), spread(5, 1)
    ([0, 3, 6, 9], [4])
    """
    return [round(index * (length - 1) / (count - 1)) for index in range(count)] if count > 1 else [length - 1]


def groups_of(rows: Sequence[Row]) -> list[Group]:
    """Rows of a step, which stand group after group, cut into the samples of one question each.

    A question that a step drew twice has two groups: the numbers of the samples begin anew.
    """
    groups: list[Group] = []
    for row in rows:
        last = groups[-1][-1] if groups else None
        same = last is not None and all(row[key] == last[key] for key in ("question_id", "db_id", "step"))
        if same and row["sample"] > last["sample"]:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _lines(path: Path) -> int:
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
