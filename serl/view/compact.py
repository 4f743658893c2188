"""A trajectory's record as the page's script reads it: sampled tokens with their numbers, answers, what was told.

Token ids and masks stay out: a page is for reading. Log-probs, Δ and ω are rounded to what a reader can tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

Row = Mapping[str, Any]

NATS_DIGITS, WEIGHT_DIGITS = 3, 4
BROKEN = "\ufffd"  # what stands for bytes that are no UTF-8
MAX_CELL = 200
"""Longest text of a cell, in characters; the rest is cut with an ellipsis."""


def verdict(row: Row) -> str:
    """`wrong`, `correct`, `corrected` (correct although an earlier statement failed or found nothing), or `lost`.

    A trajectory is lost to a failure of the sandbox: it is neither right nor wrong.
    """
    if row["reward"] is None:
        return "lost"
    if not row["correct"]:
        return "wrong"
    answers = [turn["outcome"] for turn in row["turns"] if turn["kind"] == "sql" and turn["outcome"]]
    return "corrected" if any(answer["status"] != "ok" for answer in answers) else "correct"


def gaps(row: Row) -> Sequence[float | None]:
    """Δ of each token: as recorded, or teacher − student of action tokens in runs of before it was recorded."""
    if "gaps" in row:
        return row["gaps"]
    tokens = zip(row["action_mask"], row["teacher_logprobs"], row["student_logprobs"], strict=True)
    return [teacher - student if acts and teacher is not None and student is not None else None
            for acts, teacher, student in tokens]


def weight_reach(row: Row) -> float:
    """The largest |ω − 1| of its tokens."""
    return max((abs(weight - 1) for weight in row["weights"]), default=0.0)


def facts(row: Row) -> dict[str, Any]:
    """What the table of trajectories shows of one, but for what its group says: one value a column."""
    measured = [gap for gap in gaps(row) if gap is not None]
    last = next((turn["outcome"] for turn in reversed(row["turns"]) if turn["outcome"]), None)
    return {
        "sample": row["sample"], "turns": len(row["turns"]), "verdict": verdict(row),
        "status": "none" if last is None else last["status"], "stop": row["stop"],
        "reward": _rounded(row["reward"], 4), "advantage": _rounded(row["advantage"], 4),
        "tokens": sum(row["loss_mask"]), "gap": _rounded(fmean(measured), 4) if measured else None,
        "reach": round(weight_reach(row), WEIGHT_DIGITS), "sql": row["final_sql"],
    }


def details(row: Row, prompts: dict[str, int]) -> dict[str, Any]:
    """Everything that is shown of one trajectory when it is opened.

    `prompts` numbers the distinct prompts of its group, which are most of a group's text.
    """
    start = row["turns"][0]["action"][0] if row["turns"] else len(row["tokens"])
    prompt = "".join(row["tokens"][:start])
    return {"terms": row["reward_terms"], "prompt": prompts.setdefault(prompt, len(prompts)), "prompt_tokens": start,
            "turns": [_turn(row, turn, gaps(row)) for turn in row["turns"]]}


def group_details(rows: Sequence[Row]) -> dict[str, Any]:
    """The document of a group: its distinct prompts, and its trajectories in the table's order."""
    prompts: dict[str, int] = {}
    trajectories = [details(row, prompts) for row in rows]
    return {"prompts": list(prompts), "trajectories": trajectories}


def answer(outcome: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """An outcome (its JSON form) with long cells cut."""
    if outcome is None:
        return None
    rows = [[_cut(cell) for cell in row] for row in outcome["rows"] or []]
    return {**outcome, "columns": [_cut(name) for name in outcome["columns"] or []], "rows": rows,
            "error": outcome.get("error") or ""}


def _turn(row: Row, turn: Row, gaps: Sequence[float | None]) -> dict[str, Any]:
    start, end = turn["action"]

    def values(values: Sequence[float | None], digits: int = NATS_DIGITS) -> list[float | None]:
        return [_rounded(value, digits) for value in values[start:end]]

    return {
        "kind": turn["kind"], "tokens": mended(row["tokens"][start:end], turn["action_text"]),
        "acts": "".join(str(int(mask)) for mask in row["action_mask"][start:end]),
        "sql": None if turn["sql"] is None else [turn["sql"][0] - start, turn["sql"][1] - start],
        "student": values(row["student_logprobs"]), "teacher": values(row["teacher_logprobs"]),
        "sampler": values(row["sampler_logprobs"]),
        "gap": values(gaps), "weight": values(row["weights"], WEIGHT_DIGITS),
        "answer": answer(turn["outcome"]), "told": turn["observation_text"], "hindsight": turn.get("hindsight_text"),
    }


def mended(tokens: Sequence[str], text: str) -> list[str]:
    """Tokens in which a character that several of them spell stands whole in the first: alone none of them is UTF-8.

    >>> mended(["M", "\ufffd", "\ufffd", "ller"], "Müller")
    ['M', 'ü', '', 'ller']
    """
    shown, place, index = list(tokens), 0, 0
    while index < len(shown):
        end = index
        while end < len(shown) and BROKEN in tokens[end]:
            end += 1
        if end > index:
            least = 1 + sum(len(token) - token.count(BROKEN) for token in tokens[index:end])
            behind = text.find(tokens[end], place + least) if end < len(shown) else -1
            behind = len(text) if behind < 0 else behind
            shown[index:end] = [text[place:behind]] + [""] * (end - index - 1)
            place, index = behind, end
        else:
            found = text.find(tokens[index], place)  # not there: an end token, which the text leaves out
            place, index = (place if found < 0 else found + len(tokens[index])), index + 1
    return shown


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, digits)


def _cut(cell: Any) -> Any:
    """A cell whose text is no longer than MAX_CELL; bytes keep their own form."""
    if isinstance(cell, Mapping):
        return {"hex": _cut(cell["hex"])}
    return cell[: MAX_CELL - 1] + "…" if isinstance(cell, str) and len(cell) > MAX_CELL else cell
