"""An evaluation's candidates for the page's script: who picked what of the samples of each question."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from serl.io import read_jsonl
from serl.select import NEEDS, ORACLE, SELECTORS
from serl.select.candidate import ANSWERED
from serl.select.pool import Pool
from serl.view.compact import answer
from serl.view.packed import Archive

Row = Mapping[str, Any]
COLUMNS = {"id": "question_id", "db": "db_id", "question": "question", "difficulty": "difficulty", "seen": "seen"}


def selection_archive(run_dir: Path) -> tuple[dict[str, Any], Archive]:
    """The index of the candidates of every stage that drew samples, and the archive with a document a question.

        {selectors, starts, columns: {stage: [], id: [], …, size: [], right: [], agree: [], picks: []}}

    `size` counts the samples, `right` those of them that are right, `agree` the largest number of equal results.
    `picks` holds a verdict for each selector: true, false, or null where it picks nothing.
    """
    archive = Archive("questions")
    columns: dict[str, list[Any]] = {}
    for path in sorted((run_dir / "eval").glob("*/candidates.jsonl")):
        for row in read_jsonl(path):
            if row["samples"]:
                document = question_document(row)
                for name, value in {"stage": path.parent.name, **_facts(row, document)}.items():
                    columns.setdefault(name, []).append(value)
                archive.add(document)
    return {"selectors": [*SELECTORS, ORACLE], "starts": archive.starts, "columns": columns}, archive


def question_document(row: Row) -> dict[str, Any]:
    """Everything that is shown of one question: gold, its candidates (the greedy one first), and who picked which."""
    return {"evidence": row["evidence"], "gold": row["gold_sql"], "gold_answer": answer(row["gold"]),
            "candidates": [row["greedy"], *row["samples"]], "picks": picks(row),
            "results": {key: answer(result) for key, result in row.get("results", {}).items()}}


def picks(row: Row) -> dict[str, int | None]:
    """The candidate that each selector takes, as its place in [greedy, *samples]; None where it takes none.

    A selector that looks at a fact which no sample has takes none. The learnt one is not asked: its weights are with
    the checkpoint.
    """
    pool = Pool.from_json(row)
    candidates, found = [pool.greedy, *pool.samples], {}
    for name, pick in SELECTORS.items():
        known = name not in NEEDS or any(getattr(sample, NEEDS[name]) is not None for sample in pool.samples)
        chosen = pool.choose(name, pick, len(pool.samples)) if known else None
        found[name] = next((place for place, each in enumerate(candidates) if each is chosen), None)
    right = [place for place, each in enumerate(row["samples"], 1) if each["correct"] and not candidates[place].lost]
    return found | {ORACLE: right[0] if right else None}


def _facts(row: Row, document: Row) -> dict[str, Any]:
    samples, candidates = row["samples"], document["candidates"]
    keys = [sample["result_key"] for sample in samples if sample["status"] in ANSWERED]
    return {name: row[key] for name, key in COLUMNS.items()} | {
        "gold": row["gold"]["status"], "size": len(samples), "right": sum(sample["correct"] for sample in samples),
        "agree": max(map(keys.count, keys), default=0),
        "picks": [None if place is None else candidates[place]["correct"] for place in document["picks"].values()],
    }
