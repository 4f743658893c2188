"""All sampled tokens of a batch as tensors, a trajectory a row: what every diagnostic is computed from.

Made from the samples of a step (`serl.train.metrics`) or, later and elsewhere, from the lines that the run kept of
them (`of_records`); both give the same numbers, to the six digits that a record holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from serl.agent.dialects import of_record
from serl.agent.spans import Span
from serl.errors import InputError
from serl.hindsight.credit.tokens import byte_offsets
from serl.hindsight.diagnostics.lexemes import Lexeme, TokenKind, lexemes, lexemes_of_tokens
from serl.hindsight.diagnostics.shown import tokens_shown
from serl.ragged import pad
from serl.sql.outcome import Status

Piece = Callable[[int], bytes]
"""The bytes of a token id (`serl.agent.token_bytes.TokenBytes.of`)."""

MALFORMED = "malformed"
STATUSES = (*map(str, Status), MALFORMED)
"""Outcomes of a turn's SQL; `malformed`: the action held none."""


@dataclass(frozen=True)
class TurnView:
    """What is needed of a turn: spans of the trajectory's tokens, its SQL, its outcome, what the teacher was shown."""

    action: Span
    sql: Span | None
    text: str | None  # the SQL
    offsets: Sequence[int]  # the bytes of the action at which its characters begin, and where the last one ends
    status: str
    shown: str | None  # the hindsight text; None: the turn had none


@dataclass(frozen=True)
class Row:
    """One trajectory from its first sampled token on. Sequences have one length; NaN: no value."""

    advantage: float
    sampled_T: Sequence[int]  # the loss mask
    acting_T: Sequence[int]  # the action mask
    evidence_T: torch.Tensor  # Δ where hindsight counts (m), NaN elsewhere
    weight_T: torch.Tensor  # ω
    student_T: torch.Tensor  # log-probs
    status_T: Sequence[int]  # index in STATUSES, −1 outside of actions
    turn_T: Sequence[int]  # from 0, −1 outside of actions
    kind_T: Sequence[int]  # a TokenKind
    shown_T: Sequence[bool]  # stands in the hindsight text of its turn
    steps_T: torch.Tensor | None = None  # the advantage of each token, where actions have their own


@dataclass(frozen=True)
class TokenTable:
    """Rows as tensors [B, T], those of `Row`; `advantage_BT` repeats A, or has that of each action.

    Padding counts as no token at all.
    """

    advantage_BT: torch.Tensor
    sampled_BT: torch.Tensor
    acting_BT: torch.Tensor
    evidence_BT: torch.Tensor
    weight_BT: torch.Tensor
    student_BT: torch.Tensor
    status_BT: torch.Tensor
    turn_BT: torch.Tensor
    kind_BT: torch.Tensor
    shown_BT: torch.Tensor

    @classmethod
    def of(cls, rows: Sequence[Row]) -> TokenTable:
        """The table of `rows`; of none, a table without tokens."""
        nan, floats, codes = float("nan"), torch.float32, torch.int64

        def stacked(name: str, fill: float, dtype: torch.dtype) -> torch.Tensor:
            return pad([getattr(row, name) for row in rows] or [[]], fill, dtype, "cpu")

        weight_BT = stacked("weight_T", 1.0, floats)
        advantage_B1 = torch.tensor([[row.advantage] for row in rows] or [[0.0]], dtype=floats)
        advantage_BT = advantage_B1.expand_as(weight_BT).clone()
        for number, row in enumerate(rows):
            if row.steps_T is not None:
                advantage_BT[number, : len(row.steps_T)] = row.steps_T
        return cls(advantage_BT, stacked("sampled_T", 0, torch.bool),
                   stacked("acting_T", 0, torch.bool), stacked("evidence_T", nan, floats), weight_BT,
                   stacked("student_T", nan, floats), stacked("status_T", -1, codes), stacked("turn_T", -1, codes),
                   stacked("kind_T", TokenKind.OTHER, codes), stacked("shown_T", 0, torch.bool))

    @property
    def covered_BT(self) -> torch.Tensor:
        """m: the sampled tokens with finite evidence of trajectories with A ≠ 0."""
        return self.sampled_BT & torch.isfinite(self.evidence_BT) & (self.advantage_BT != 0)


def labelled(ids: Sequence[int], turns: Sequence[TurnView], first: int, piece: Piece) -> dict[str, list]:
    """The fields status_T, turn_T, kind_T and shown_T of a `Row` for the tokens `ids[first:]`."""
    size = len(ids)
    status_T, turn_T = [-1] * size, [-1] * size
    kind_T, shown_T = [int(TokenKind.OTHER)] * size, [False] * size
    for number, turn in enumerate(turns):
        start, end = turn.action
        pieces = [piece(index) for index in ids[start:end]]
        words = [None] * (end - start)
        if turn.sql is not None and turn.text is not None:
            inside = slice(turn.sql[0] - start, turn.sql[1] - start)
            before = sum(map(len, pieces[:inside.start]))
            words[inside] = lexemes_of_tokens(list(map(len, pieces[inside])), placed(turn.text, turn.offsets), -before)
        status_T[start:end] = [STATUSES.index(turn.status)] * (end - start)
        turn_T[start:end] = [number] * (end - start)
        kind_T[start:end] = [int(TokenKind.OTHER if word is None else word.kind) for word in words]
        if turn.shown is not None:
            shown_T[start:end] = tokens_shown(pieces, words, turn.shown)
    return {"status_T": status_T[first:], "turn_T": turn_T[first:], "kind_T": kind_T[first:],
            "shown_T": shown_T[first:]}


def placed(sql: str, offsets: Sequence[int]) -> list[Lexeme]:
    """The words of `sql` with the bytes of the action that spell them."""
    at = dict(zip(byte_offsets(sql), offsets, strict=True))
    return [replace(word, start=at[word.start], end=at[word.end]) for word in lexemes(sql)]


def text_of(ids: Iterable[int], piece: Piece) -> str:
    """What tokens say; bytes that are no UTF-8 are replaced."""
    return b"".join(map(piece, ids)).decode("utf-8", errors="replace")


def of_records(records: Iterable[Mapping[str, Any]], piece: Piece) -> TokenTable:
    """The table of one step's lines of trajectories/: of those with A ≠ 0 that the trainer has scored.

    Raises InputError where `piece` is of another tokenizer, or the lines are of a version that did not keep Δ.
    """
    return TokenTable.of([_row(record, piece) for record in records
                          if _learns(record) and any(value is not None for value in record["student_logprobs"])])


def _learns(record: Mapping[str, Any]) -> bool:
    """Whether A ≠ 0: of the trajectory, or of some action where actions have their own."""
    own = [turn.get("advantage") for turn in record["turns"]]
    return bool(record["advantage"]) if None in own else any(own)


def _row(record: Mapping[str, Any], piece: Piece) -> Row:
    name = f"step {record['step']}, question {record['question_id']}, sample {record['sample']}"
    if "gaps" not in record:
        raise InputError(f"{name}: the record holds no gaps; an older version wrote it, so train anew")
    ids, turns, dialect = record["token_ids"], [], of_record(record)
    for turn in record["turns"]:
        start, end = turn["action"]
        parsed = dialect.parse(b"".join(map(piece, ids[start:end])))
        if parsed.sql != turn["sql_text"]:
            raise InputError(f"{name}: its tokens do not say its SQL; give the tokenizer of the run's own checkpoint")
        status = MALFORMED if turn["outcome"] is None else turn["outcome"]["status"]
        turns.append(TurnView((start, end), turn["sql"], parsed.sql, parsed.offsets, status, turn["hindsight_text"]))
    first = turns[0].action[0]
    tail, steps = slice(first, None), None
    if None not in (own := [turn.get("advantage") for turn in record["turns"]]):
        steps = torch.full((len(ids),), float(record["advantage"]))
        for turn, advantage in zip(record["turns"], own):
            steps[slice(*turn["action"])] = advantage
    return Row(record["advantage"], record["loss_mask"][tail], record["action_mask"][tail],
               values_of(record["gaps"][tail]), values_of(record["weights"][tail]),
               values_of(record["student_logprobs"][tail]), **labelled(ids, turns, first, piece),
               steps_T=None if steps is None else steps[tail])


def values_of(values: Sequence[float | None]) -> torch.Tensor:
    """A record's numbers; null is NaN."""
    return torch.tensor([float("nan") if value is None else value for value in values])
