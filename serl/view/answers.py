"""The database's answer to a statement, as a small table or as the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from serl.view.html import Html, join, tag

MAX_CELL = 120
"""Longest text of a cell, in characters; the rest is cut with an ellipsis."""


def answer_view(outcome: Mapping[str, Any] | None) -> Html | None:
    """Markup of an outcome (its JSON form); None when nothing was executed."""
    if outcome is None:
        return None
    status = tag("span", outcome["status"], cls=f"chip {_tone(outcome['status'])}")
    message = tag("code", outcome["error"]) if outcome.get("error") else None
    rows = outcome["rows"] or []
    answered = outcome["columns"] and outcome["status"] in ("ok", "empty")
    table = _table(outcome["columns"], rows) if answered else None
    heading = tag("p", "Database ", status, " ", message or _size(len(rows), outcome["row_count"]))
    return tag("div", join([heading, table]), cls="answer")


def cell_view(value: Any) -> Html:
    """One cell: NULL and bytes are marked apart from text that looks like them."""
    if value is None:
        return tag("td", tag("i", "NULL"))
    if isinstance(value, Mapping):
        return tag("td", tag("i", f"x'{_cut(value['hex'])}'"))
    return tag("td", _cut(str(value)), cls="number" if isinstance(value, (int, float)) else None)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Html:
    head = tag("tr", *(tag("th", _cut(name), scope="col") for name in columns))
    body = [tag("tr", *map(cell_view, row)) for row in rows]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body), cls="rows"), cls="scroll")


def _size(shown: int, total: int) -> str:
    plural = "row" if total == 1 else "rows"
    return f"{total:,} {plural}" + (f", the first {shown} shown" if shown < total else "")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"


def _tone(status: str) -> str:
    return {"ok": "good", "empty": "plain"}.get(status, "bad")
