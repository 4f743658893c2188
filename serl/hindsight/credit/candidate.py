"""What a credit source may look at: one trajectory's final SQL, its tokens and what models say of them.

Built from a sampled trajectory or from a record of a run, by the same code: the final action's bytes are parsed,
never a decoded text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from serl.agent.grammar import Kind, parse, token_span
from serl.agent.trajectory import Trajectory
from serl.errors import InputError
from serl.hindsight.credit.difference import Difference
from serl.hindsight.credit.tokens import Span, byte_offsets, token_at, tokens_of

Piece = Callable[[int], bytes]
"""The bytes of a token id (`serl.agent.token_bytes.TokenBytes.of`)."""


@dataclass(frozen=True)
class Candidate:
    """One trajectory of a group. Tensors are [T], NaN where there is no value."""

    size: int  # T
    correct: bool
    mask_T: torch.Tensor  # bool: tokens that the policy sampled as part of an action
    sql: str | None = None  # the solution; None: it has none
    tokens: Span = (0, 0)  # the solution's tokens
    closer: int | None = None  # the token that ends the solution: sampled where more SQL could have been
    lengths: tuple[int, ...] = ()  # bytes of each token from tokens[0] to the end of the action
    offset: int = 0  # bytes of the first of them that stand before the SQL
    student_T: torch.Tensor | None = None  # log-probs
    teacher_T: torch.Tensor | None = None
    entropy_T: torch.Tensor | None = None  # of the student's distribution

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


def of_trajectory(trajectory: Trajectory, piece: Piece, correct: bool, student_T: torch.Tensor | None = None,
                  teacher_T: torch.Tensor | None = None, entropy_T: torch.Tensor | None = None) -> Candidate:
    """A sampled trajectory as a candidate."""
    last = trajectory.turns[-1].action if trajectory.turns else (0, 0)
    return _candidate(trajectory.token_ids, last, _both(trajectory.loss_mask, trajectory.action_mask), piece, correct,
                      student_T, teacher_T, entropy_T)


def of_record(record: Mapping[str, Any], piece: Piece) -> Candidate:
    """A line of a run's trajectories/ as a candidate; `entropies` may be missing from it.

    Raises InputError where `piece` is of another tokenizer.
    """
    last = tuple(record["turns"][-1]["action"]) if record["turns"] else (0, 0)
    values = [None if record.get(name) is None else _tensor(record[name])
              for name in ("student_logprobs", "teacher_logprobs", "entropies")]
    candidate = _candidate(record["token_ids"], last, _both(record["loss_mask"], record["action_mask"]), piece,
                           record["correct"], *values)
    if candidate.sql != record["final_sql"]:
        raise InputError(f"step {record['step']}, question {record['question_id']}, sample {record['sample']}: its "
                         "tokens do not say its final_sql; give the tokenizer of the run's own checkpoint")
    return candidate


def marks(candidate: Candidate, difference: Difference) -> Marks:
    """The tokens of a difference of which the candidate's SQL is the predicted side."""
    offsets = byte_offsets(candidate.sql or "")
    first, count = candidate.tokens[0], len(candidate.scope)
    lengths = candidate.lengths[:count]
    spans = [(candidate.offset + offsets[start], candidate.offset + offsets[end]) for start, end in difference.wrong]
    wrong = {first + place for place, inside in enumerate(tokens_of(lengths, spans)) if inside}
    starts = {first + token_at(lengths, start) for start, _ in spans}
    missing = set()
    for position in difference.insert_at:
        place = token_at(lengths, candidate.offset + offsets[position])
        missing.add(first + min(place, count - 1))
    return Marks(frozenset(wrong), frozenset(missing), frozenset(starts))


def _candidate(ids: Sequence[int], action: Span, mask_T: torch.Tensor, piece: Piece, correct: bool,
               student_T: torch.Tensor | None, teacher_T: torch.Tensor | None, entropy_T: torch.Tensor | None
               ) -> Candidate:
    pieces = [piece(index) for index in ids[slice(*action)]]
    parsed = parse(b"".join(pieces))
    base = Candidate(len(ids), correct, mask_T, student_T=student_T, teacher_T=teacher_T, entropy_T=entropy_T)
    if parsed.kind is not Kind.FINAL or parsed.sql_span is None:
        return base
    lengths = [len(each) for each in pieces]
    start, end = token_span(lengths, parsed.sql_span)
    if start == end:
        return base
    closer = action[0] + end if end < len(pieces) else None
    return Candidate(len(ids), correct, mask_T, parsed.sql, (action[0] + start, action[0] + end), closer,
                     tuple(lengths[start:]), parsed.sql_span[0] - sum(lengths[:start]), student_T, teacher_T, entropy_T)


def _both(loss_mask: Sequence[int], action_mask: Sequence[int]) -> torch.Tensor:
    return torch.tensor(loss_mask, dtype=torch.bool) & torch.tensor(action_mask, dtype=torch.bool)


def _tensor(values: Sequence[float | None]) -> torch.Tensor:
    return torch.tensor([float("nan") if value is None else value for value in values])
