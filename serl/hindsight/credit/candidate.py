"""A trajectory's final SQL and its tokens: what the credit sources that read SQL look at, and where its spans lie.

Spans are of the final action's bytes, never of a decoded text. A solution is written as it is in every dialect, so that
its characters and bytes run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from serl.agent.spans import token_span
from serl.agent.trajectory import Trajectory
from serl.hindsight.credit.difference import Difference
from serl.hindsight.credit.tokens import Span, byte_offsets, token_at, tokens_of

Piece = Callable[[int], bytes]
"""The bytes of a token id (`serl.agent.token_bytes.TokenBytes.of`)."""


@dataclass(frozen=True)
class Candidate:
    """One trajectory of a group."""

    size: int  # its tokens, T
    correct: bool
    sql: str | None = None  # the solution; None: it has none
    tokens: Span = (0, 0)  # the solution's tokens
    closer: int | None = None  # the token that ends the solution: sampled where more SQL could have been
    lengths: tuple[int, ...] = ()  # bytes of each token from tokens[0] to the end of the action
    offset: int = 0  # bytes of the first of them that stand before the SQL

    @property
    def scope(self) -> range:
        """Tokens that are right or wrong: the solution and the one that ends it."""
        return range(self.tokens[0], self.tokens[1] + (self.closer is not None))


@dataclass(frozen=True)
class Marks:
    """Token indices of a trajectory: `wrong` ones, and those in whose place something is `missing`.

    `first` are the wrong tokens that begin a wrong span: the ones after them may only follow from it.
    """

    wrong: frozenset[int]
    missing: frozenset[int]
    first: frozenset[int]

    @property
    def blamed(self) -> frozenset[int]:
        """The tokens that the policy should not have sampled: wrong ones, and those where it left something out."""
        return self.wrong | self.missing


def candidate_of(trajectory: Trajectory, piece: Piece, correct: bool) -> Candidate:
    """A sampled trajectory as a candidate."""
    base = Candidate(len(trajectory), correct)
    if trajectory.final_sql is None:
        return base
    action, parsed = trajectory.turns[-1].action, trajectory.turns[-1].parsed
    pieces = [piece(index) for index in trajectory.token_ids[slice(*action)]]
    lengths = [len(each) for each in pieces]
    start, end = token_span(lengths, parsed.sql_span or (0, 0))
    if start == end:
        return base
    closer = action[0] + end if end < len(pieces) else None
    return Candidate(len(trajectory), correct, parsed.sql, (action[0] + start, action[0] + end), closer,
                     tuple(lengths[start:]), parsed.sql_span[0] - sum(lengths[:start]))


def tokens_in(candidate: Candidate, spans: Iterable[Span]) -> frozenset[int]:
    """The tokens of the trajectory that hold characters of these spans of its SQL."""
    offsets = byte_offsets(candidate.sql or "")
    in_bytes = [(candidate.offset + offsets[start], candidate.offset + offsets[end]) for start, end in spans]
    held = tokens_of(candidate.lengths[:len(candidate.scope)], in_bytes)
    return frozenset(candidate.tokens[0] + place for place, inside in enumerate(held) if inside)


def marks(candidate: Candidate, difference: Difference) -> Marks:
    """The tokens of a difference of which the candidate's SQL is the predicted side.

    What is missing is the doing of the token that was sampled in its place: the next one of the SQL, or, at the end,
    the one that ends it, for the policy stopped where it should have gone on.
    """
    offsets = byte_offsets(candidate.sql or "")
    first, count = candidate.tokens[0], len(candidate.scope)
    lengths = candidate.lengths[:count]
    starts = {first + token_at(lengths, candidate.offset + offsets[start]) for start, _ in difference.wrong}
    missing = set()
    for position in difference.insert_at:
        place = token_at(lengths, candidate.offset + offsets[position])
        missing.add(first + min(place, count - 1))
    return Marks(tokens_in(candidate, difference.wrong), frozenset(missing), frozenset(starts))
