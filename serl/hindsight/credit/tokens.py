"""Spans of a text → the tokens that hold it.

Tokens are byte strings that lie side by side, so characters become bytes first. A token that straddles the border
of a span belongs to it: the policy chose some of the span's bytes with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[int, int]


def byte_offsets(text: str) -> list[int]:
    """The byte at which each character begins, and the length of all.

    >>> byte_offsets("né!")
    [0, 1, 3, 4]
    """
    offsets = [0]
    for character in text:
        offsets.append(offsets[-1] + len(character.encode()))
    return offsets


def tokens_of(lengths: Sequence[int], spans: Iterable[Span]) -> list[bool]:
    """Which tokens hold at least one byte of `spans`; `lengths` are the tokens' bytes.

    >>> tokens_of([3, 4, 2], [(1, 2), (6, 7)])
    [True, True, False]
    """
    mask = [False] * len(lengths)
    spans = [span for span in spans if span[0] < span[1]]
    start = 0
    for index, length in enumerate(lengths):
        mask[index] = bool(length) and any(low < start + length and high > start for low, high in spans)
        start += length
    return mask


def token_at(lengths: Sequence[int], position: int) -> int:
    """The token in which byte `position` lies; len(lengths) behind the last.

    What is missing at `position` should have been written by this token instead of what it wrote.

    >>> token_at([3, 4], 2), token_at([3, 4], 3), token_at([3, 4], 7)
    (0, 1, 2)
    """
    end = 0
    for index, length in enumerate(lengths):
        end += length
        if length and position < end:
            return index
    return len(lengths)
