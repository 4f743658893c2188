"""The trajectories of a run for the page's script: an index for the table, and a document for each group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from serl.view.choice import Choice, Group
from serl.view.compact import facts, group_details
from serl.view.packed import Archive

QUESTION_KEYS = {"id": "question_id", "db": "db_id", "question": "question", "evidence": "evidence",
                 "gold": "gold_sql", "difficulty": "difficulty"}


def trajectory_archive(choice: Choice) -> tuple[dict[str, Any], Archive]:
    """The index of the trajectories that were chosen, and the archive with a document for each of its groups.

    The index holds each question once, and for each trajectory one value a column:

        {recorded, gaps_recorded, reach, questions: [{id, db, question, …}], starts,
         groups: [{step, question: number, size}], columns: {sample: [], turns: [], …}}
    """
    archive = Archive("groups")
    index = _index(choice.groups(), archive)
    return {"recorded": choice.recorded, **index, "starts": archive.starts}, archive


def _index(groups: Iterable[Group], archive: Archive) -> dict[str, Any]:
    questions: dict[tuple, int] = {}
    listed: list[dict[str, Any]] = []
    columns: dict[str, list[Any]] = {}
    gaps_recorded = True
    for group in groups:
        asked = tuple(group[0][key] for key in QUESTION_KEYS.values())
        question = questions.setdefault(asked, len(questions))
        listed.append({"step": group[0]["step"], "question": question, "size": len(group)})
        for row in group:
            gaps_recorded = gaps_recorded and "gaps" in row
            for name, value in facts(row).items():
                columns.setdefault(name, []).append(value)
        archive.add(group_details(group))
    return {"questions": [dict(zip(QUESTION_KEYS, asked, strict=True)) for asked in questions], "groups": listed,
            "columns": columns, "reach": max(columns.get("reach", ()), default=0.0), "gaps_recorded": gaps_recorded}
