"""Dialogue metrics of SParC and CoSQL: question match (QM) and interaction match (IM).

    QM = turns that match / turns            IM = interactions of which every turn matches / interactions

Source: arXiv 1906.02285 (SParC) and 1909.05378 (CoSQL). A turn matches by the verdict of any metric that gives 0 or 1
(`em` in the papers, execution in later work). Interactions are keyed by id, turns counted from 1:

- A turn without a verdict counts as wrong and is reported. The official script pairs lines by position and stops
  at the shorter session: lost turns leave its count, and the rest may still make the interaction match.
- A verdict of None (gold does not run, or a failure of ours) leaves its turn out; an interaction is judged on the
  turns that are left and is out itself when none is.
- Verdicts on turns that there are not are reported and count for nothing.

Turns of one interaction depend on each other, so the interval of QM comes from resampling interactions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from serl.evaluate.stats import Estimate, bootstrap_ratio, wilson

Turn = tuple[str, int]
"""Interaction id, and the turn's number from 1."""

TURN_GROUPS = ("1", "2", "3", "4", ">4")
"""The official script's groups of turns by number."""


@dataclass(frozen=True)
class DialogueMatch:
    """QM and IM, None where nothing could be scored; QM by turn number; and the turns that are not as expected."""

    question_match: Estimate | None
    interaction_match: Estimate | None
    by_turn: Mapping[str, Estimate]
    missing: tuple[Turn, ...]
    excluded: tuple[Turn, ...]
    extra: tuple[Turn, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data for json.dumps."""
        return {
            "question_match": self.question_match and self.question_match.to_json(),
            "interaction_match": self.interaction_match and self.interaction_match.to_json(),
            "by_turn": {group: estimate.to_json() for group, estimate in self.by_turn.items()},
            "missing": [list(turn) for turn in self.missing],
            "excluded": [list(turn) for turn in self.excluded],
            "extra": [list(turn) for turn in self.extra],
        }


def dialogue_match(turns: Mapping[str, int], verdicts: Mapping[Turn, bool | None], seed: int = 0) -> DialogueMatch:
    """QM and IM of the interactions in `turns` (id → number of its turns)."""
    expected = [(interaction, number + 1) for interaction, count in turns.items() for number in range(count)]
    missing = tuple(turn for turn in expected if turn not in verdicts)
    excluded = tuple(turn for turn in expected if turn in verdicts and verdicts[turn] is None)
    left_out = set(excluded)
    scored = [turn for turn in expected if turn not in left_out]
    right = {turn for turn in scored if verdicts.get(turn)}
    by_interaction: dict[str, list[bool]] = {}
    by_turn: dict[str, list[bool]] = {group: [] for group in TURN_GROUPS}
    for interaction, number in scored:
        by_interaction.setdefault(interaction, []).append((interaction, number) in right)
        by_turn[TURN_GROUPS[min(number, len(TURN_GROUPS)) - 1]].append((interaction, number) in right)
    sessions = list(by_interaction.values())
    return DialogueMatch(
        question_match=bootstrap_ratio([(sum(turns), len(turns)) for turns in sessions], seed) if sessions else None,
        interaction_match=wilson(sum(map(all, sessions)), len(sessions)) if sessions else None,
        by_turn={group: wilson(sum(found), len(found)) for group, found in by_turn.items() if found},
        missing=missing,
        excluded=excluded,
        extra=tuple(sorted(set(verdicts) - set(expected))),
    )


def interaction_match(
    records: Sequence[Mapping[str, Any]], groups: Sequence[str | None], metric: str, seed: int = 0
) -> DialogueMatch:
    """QM and IM of finished records (lines of `serl score --out`, in the split's order) by one of their metrics.

    `groups` holds each record's interaction id, None where it is in none; the turns of an interaction are its records
    in their order. A record without a prediction (`pred_status` is `missing`) is a missing turn. Raises ValueError
    if a score is none of 0, 1 and None: such a metric says nothing of a match.
    """
    turns: dict[str, int] = {}
    verdicts: dict[Turn, bool | None] = {}
    for record, group in zip(records, groups, strict=True):
        if group is None:
            continue
        turns[group] = turns.get(group, 0) + 1
        score = record["metrics"][metric]["score"]
        if score not in (0, 1, None):
            raise ValueError(f"question {record['question_id']}: {metric} is {score}, a match needs 0 or 1")
        if score is None:
            verdicts[group, turns[group]] = None
        elif record["pred_status"] != "missing":
            verdicts[group, turns[group]] = score == 1
    return dialogue_match(turns, verdicts, seed)
