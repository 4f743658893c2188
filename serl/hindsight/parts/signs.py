"""What is remarkable of a part, beside the parts that it rests on.

    fails     the engine refuses it, and nothing that it rests on
    empty     it leaves no row or group, though what it rests on has some
    absent    a text that it compares a column with is not in the column
    idle      a condition that keeps every row
    apart     a join that multiplies rows or loses some

The first three tell of mistakes: wrong parts of failed SQL have them, right ones hardly ever (`credit.revealed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from serl.hindsight.parts.part import HOLD_OTHERS, ONLY_FAIL, Finding, Key, Kind, Span

TELLING = frozenset({"fails", "empty", "absent"})


def before_of(finding: Finding, by_key: Mapping[Key, Finding]) -> int | None:
    """The rows, or groups, that a part got; None where they are not known, or where it gets none."""
    part = finding.part
    match part.kind:
        case Kind.DISTINCT | Kind.LIMIT:
            return None if finding.values is None else finding.values[1]
        case Kind.JOIN | Kind.CONDITION | Kind.WHERE | Kind.CASE | Kind.HAVING:
            base = by_key.get(part.inside[0])
            return None if base is None else base.rows
        case _:
            return None


def signs(finding: Finding, by_key: Mapping[Key, Finding]) -> tuple[str, ...]:
    """The signs of a part; `by_key` holds what was found of all parts of the action."""
    part, rows, before = finding.part, finding.rows, before_of(finding, by_key)
    found = ["absent"] if finding.absent else []
    if not rows:
        told = rows is None or (before != 0 and part.kind not in ONLY_FAIL)
        if told and not follows(finding, by_key):
            found.append("fails" if rows is None else "empty")
    elif part.kind in (Kind.CONDITION, Kind.CASE) and rows == before:
        found.append("idle")
    elif part.kind is Kind.JOIN and before is not None:
        sizes = [by_key[key].rows for key in part.inside if key in by_key and key[1] is not Kind.WITH]
        if rows > max(sizes) or rows < before:
            found.append("apart")
    return tuple(found)


def follows(finding: Finding, by_key: Mapping[Key, Finding]) -> bool:
    """Whether a part that it rests on fails too, or has nothing either."""
    inside = [by_key[key].rows for key in finding.part.inside if key in by_key]
    return None in inside if finding.rows is None else 0 in inside


def telling_spans(findings: Iterable[Finding]) -> list[Span]:
    """Characters of the action that a telling sign speaks against: the literal of an absent text, else the whole part.

    A condition that keeps nothing for want of its text has both signs, and the literal explains them.
    """
    by_key, spans = {finding.part.key: finding for finding in findings}, []
    for finding in by_key.values():
        part, found = finding.part, TELLING.intersection(signs(finding, by_key))
        if not found or part.span is None or part.kind in HOLD_OTHERS:
            continue
        spans += [part.texts[place][2] or part.span for place, _ in finding.absent] or [part.span]
    return spans
