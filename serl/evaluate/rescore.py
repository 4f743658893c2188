"""What a choice among stored candidates is worth, where their file holds gold's verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from serl.evaluate.candidates import MarkedPool
from serl.evaluate.selection import outcomes, selection
from serl.io import read_jsonl
from serl.select import Pick
from serl.select.candidate import ANSWERED


def rescore(path: Path, picks: Mapping[str, Pick], n: int, confidence: float) -> dict[str, Any] | None:
    """The block `selection` of a summary; None where a line lacks gold or a verdict."""
    rows = read_jsonl(path)
    if not all("gold" in row and "seen" in row and all("correct" in each for each in (row["greedy"], *row["samples"]))
               for row in rows):
        return None
    pools = [MarkedPool.from_json(row) for row in rows if row["gold"]["status"] in ANSWERED]
    return selection(pools, outcomes(pools, picks, n), n, confidence)
