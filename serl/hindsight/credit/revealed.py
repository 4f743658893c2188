"""What executing the parts of failed queries reveals by itself, whatever a teacher makes of it.

A part is wrong if the tree difference to gold marks something in it. What is remarkable of a part are its signs
(`serl.hindsight.parts.signs`). A sign tells something of mistakes if wrong parts have it more often than right ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from serl.hindsight.credit.difference import Span
from serl.hindsight.parts.part import HOLD_OTHERS, Finding, Kind
from serl.hindsight.parts.signs import signs


@dataclass(frozen=True)
class Revealed:
    """Parts of one kind: how many there are, and how many have each sign; wrong ones and right ones."""

    kind: str
    wrong: int
    right: int
    signs: tuple[tuple[str, int, int], ...]  # sign, how many of the wrong parts, of the right parts have it

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "wrong": self.wrong, "right": self.right,
                "signs": {name: {"wrong": wrong, "right": right} for name, wrong, right in self.signs}}


def revealed(failures: Iterable[tuple[Iterable[Finding], Iterable[Span]]]) -> list[Revealed]:
    """The signs of parts by kind. A failure is what was found of its parts, and the wrong characters of its SQL.

    Parts without a place in the text, and those that hold others, are left out: a whole query, all of WHERE.
    """
    sizes: Counter[tuple[Kind, bool]] = Counter()
    seen: Counter[tuple[Kind, str, bool]] = Counter()
    for findings, spans in failures:
        found, spans = tuple(findings), tuple(spans)
        by_key = {finding.part.key: finding for finding in found}
        for finding in found:
            kind, place = finding.part.kind, finding.part.span
            if place is None or kind in HOLD_OTHERS:
                continue
            wrong = any(start < place[1] and end > place[0] for start, end in spans)
            sizes[kind, wrong] += 1
            seen.update((kind, sign, wrong) for sign in signs(finding, by_key))
    return [Revealed(str(kind), sizes[kind, True], sizes[kind, False],
                     tuple((sign, seen[kind, sign, True], seen[kind, sign, False])
                           for sign in dict.fromkeys(sign for other, sign, _ in sorted(seen) if other is kind)))
            for kind in Kind if sizes[kind, True] + sizes[kind, False]]


def markdown(table: Iterable[Revealed]) -> str:
    """The signs as Markdown: shares of the wrong and of the right parts that have each."""
    lines = [["part", "sign", "wrong parts with it", "right parts with it"], ["---", "---", "---:", "---:"]]
    for row in table:
        for sign, wrong, right in row.signs:
            lines.append([row.kind, sign, _share(wrong, row.wrong), _share(right, row.right)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _share(count: int, of: int) -> str:
    return f"{count} of {of}" + (f" ({100 * count / of:.1f}%)" if of else "")
