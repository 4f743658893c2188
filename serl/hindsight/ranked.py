"""Lines of hindsight of which the most telling survive where not all fit the budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One line. `rank` 0 is the most telling."""

    rank: int
    text: str


@dataclass(frozen=True)
class Ranked:
    """Lines in the order of telling, and the words around them, with the field {parts}."""

    wording: str
    lines: tuple[Line, ...]

    def within(self, fits: Callable[[str], bool]) -> str:
        """The text without as many of its lines as it takes to fit, the least telling and of these the last ones first.

        One line stays, whether it fits or not.

        >>> note = Ranked("parts: {parts}", (Line(1, "a"), Line(0, "b"), Line(1, "c")))
        >>> note.within(lambda text: len(text) < 12), note.within(lambda text: False)
        ('parts: a\\nb', 'parts: b')
        """
        kept = list(self.lines)
        while len(kept) > 1 and not fits(self._text(kept)):
            kept.pop(max(range(len(kept)), key=lambda place: (kept[place].rank, place)))
        return self._text(kept)

    def _text(self, lines: list[Line]) -> str:
        return self.wording.format(parts="\n".join(line.text for line in lines))
