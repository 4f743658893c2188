"""Ranges of bytes in a sampled text, and the tokens that hold them."""

from collections.abc import Iterable, Sequence

Span = tuple[int, int]
"""[start, end)."""


def token_span(lengths: Sequence[int], span: Span) -> Span:
    """Tokens that hold at least one byte of `span`, as [start, end) indices; (0, 0) if none does.

    `lengths` are the byte lengths of the sampled tokens. A token that straddles a tag and the SQL
    belongs to the SQL, since the policy chose SQL bytes with it.

    >>> token_span([5, 3, 4, 6], (5, 12))
    (1, 3)
    """
    start, end, offset = None, 0, 0
    for index, length in enumerate(lengths):
        if length and offset < span[1] and offset + length > span[0]:
            start, end = (index if start is None else start), index + 1
        offset += length
    return (start, end) if start is not None and span[0] < span[1] else (0, 0)


def token_mask(lengths: Sequence[int], spans: Iterable[Span]) -> list[int]:
    """1 for each token that holds at least one byte of `spans`, 0 for the others.

    >>> token_mask([5, 3, 4, 6], [(4, 6), (12, 13)])
    [1, 1, 0, 1]
    """
    mask = [0] * len(lengths)
    for span in spans:
        start, end = token_span(lengths, span)
        mask[start:end] = [int(length > 0) for length in lengths[start:end]]
    return mask
