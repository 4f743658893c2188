"""The candidates of one question, and how an evaluation's file is read for selecting again, without what gold is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serl.errors import InputError
from serl.io import read_jsonl
from serl.select import NEEDS, Pick
from serl.select.candidate import Candidate
from serl.sql.outcome import Outcome


@dataclass(frozen=True)
class Pool:
    """What was sampled for a question, and its greedy answer."""

    question_id: str
    db_id: str
    greedy: Candidate
    samples: tuple[Candidate, ...]

    def offered(self, selector: str, n: int) -> list[Candidate]:
        """What a selector chooses from at N = n: samples that no failure of ours met, or the greedy answer alone."""
        if selector == "greedy":
            return [self.greedy]
        return [sample for sample in self.samples[:n] if not sample.lost]

    def choose(self, selector: str, pick: Pick, n: int) -> Candidate | None:
        """The candidate that a selector takes; None where it takes none."""
        offered = self.offered(selector, n)
        index = pick(offered)
        return None if index is None else offered[index]

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Pool:
        """The pool of a line of `candidates.jsonl`; its gold, and gold's verdicts, are not looked at."""
        results = {key: Outcome.from_json(outcome) for key, outcome in row.get("results", {}).items()}
        return cls(row.get("question_id", ""), row.get("db_id", ""),
                   Candidate.from_json(row["greedy"], results, greedy=True),
                   tuple(Candidate.from_json(sample, results) for sample in row["samples"]))


def results_of(candidates: Sequence[Candidate]) -> dict[str, dict[str, Any]]:
    """Each result once, by key: what `from_json` gives back to the candidates that have it."""
    return {each.result_key: each.result.to_json() for each in candidates if each.result is not None}


def read_pools(path: Path) -> list[Pool]:
    """The pools of a `candidates.jsonl`; InputError, which names the line, where it is none."""
    pools = []
    for number, row in enumerate(read_jsonl(path), start=1):
        try:
            pools.append(Pool.from_json(row))
        except (InputError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise InputError(f"{path}, line {number}: no candidates of a question ({error}); give a candidates.jsonl "
                             "that `serl eval` wrote") from error
    if not any(pool.samples for pool in pools):
        raise InputError(f"{path}: no samples to choose from; evaluate with -n above 0")
    return pools


def check_facts(path: Path, pools: Sequence[Pool], names: Sequence[str]) -> None:
    """InputError where a selector looks at a fact that no candidate of the file has."""
    for name in names:
        need = NEEDS.get(name)
        if need and not any(getattr(sample, need) is not None for pool in pools for sample in pool.samples):
            raise InputError(f"{path}: {name} looks at a candidate's {need}, and none of these has it; evaluate anew "
                             f"with --select {name} (or all)")
