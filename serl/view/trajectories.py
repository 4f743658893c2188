"""Example trajectories of a run: which ones to show, and each of them turn by turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from serl.view.answers import answer_view
from serl.view.html import Html, join, tag
from serl.view.rundata import RunData, series
from serl.view.tokens import joined, token_view, weight_legend, weight_reach

LATEST_FILES = 5
"""How many of the last recorded steps are searched for examples."""

Row = Mapping[str, Any]


@dataclass
class Kind:
    """A kind of example, and the examples found of it."""

    title: str
    wanted: int = 3
    rows: list[Row] = field(default_factory=list)


def choose(trajectories: Iterable[Row], shown: Iterable[str] = ()) -> list[Kind]:
    """Corrected, correct and wrong examples, in the order they come.

    All are of different questions, and of none of the question ids in `shown`.
    """
    kinds = {
        "corrected": Kind("Corrected after the database answered with an error or with no rows"),
        "correct": Kind("Correct"),
        "wrong": Kind("Wrong"),
    }
    questions = set(shown)
    for row in trajectories:
        if row["reward"] is None:  # lost to a sandbox failure: neither right nor wrong
            continue
        kind = kinds[classify(row)]
        if len(kind.rows) < kind.wanted and row["question_id"] not in questions:
            kind.rows.append(row)
            questions.add(row["question_id"])
        if all(len(kind.rows) == kind.wanted for kind in kinds.values()):
            break
    return [kind for kind in kinds.values() if kind.rows]


def classify(row: Row) -> str:
    """`wrong`, `correct`, or `corrected`: correct although an earlier statement failed or found nothing."""
    if not row["correct"]:
        return "wrong"
    answers = [turn["outcome"] for turn in row["turns"] if turn["kind"] == "sql" and turn["outcome"]]
    return "corrected" if any(answer["status"] != "ok" for answer in answers) else "correct"


def trajectories_section(run: RunData) -> Html:
    """The chosen examples; a sentence when the run has recorded none."""
    weighted = _most_weighted(run)
    kinds = [Kind("Where hindsight moved the most credit", rows=weighted)] if weighted else []
    kinds += choose(run.latest_trajectories(LATEST_FILES), [row["question_id"] for row in weighted])
    if not kinds:
        return tag("p", "No trajectories have been recorded yet.", cls="note")
    reach = weight_reach([row for kind in kinds for row in kind.rows])
    parts = [weight_legend(reach)]
    for kind in kinds:
        parts.append(tag("h3", kind.title))
        parts += [_trajectory(row, reach) for row in kind.rows]
    return join(parts)


def _most_weighted(run: RunData) -> list[Row]:
    """The trajectory with the largest |ω − 1| of the last recorded step that had λ > 0, if there is one.

    λ decays to 0, so the latest steps alone would often show no colours at all.
    """
    steps = [int(step) for step, strength in series(run.metrics, "hindsight/lambda") if strength > 0]
    recorded = next((rows for step in reversed(steps) if (rows := run.trajectories_of(step))), [])
    weighted = [row for row in recorded if weight_reach([row]) > 0]
    return [max(weighted, key=lambda row: weight_reach([row]))] if weighted else []


def _trajectory(row: Row, reach: float) -> Html:
    turns = [
        tag(
            "li",
            tag("span", f"Turn {number} · {turn['kind']}", cls="turn-name"),
            token_view(row, *turn["action"], reach),
            answer_view(turn["outcome"]) or _observation(turn),
            _hindsight(turn),
        )
        for number, turn in enumerate(row["turns"], 1)
    ]
    return tag(
        "article",
        _header(row),
        tag("ol", *turns, cls="turns"),
        tag("p", tag("span", "Gold", cls="label"), tag("code", row["gold_sql"]), cls="gold"),
        _rewards(row),
        _prompt(row),
        cls="trajectory",
    )


def _header(row: Row) -> Html:
    word, tone = ("correct", "good") if row["correct"] else ("wrong", "bad")
    verdict = tag("span", word, cls=f"chip {tone}")
    facts = [row["db_id"], row["difficulty"], f"question {row['question_id']}", f"step {row['step']}"]
    facts += [f"sample {row['sample']}", f"stopped by {row['stop']}"]
    return tag(
        "header",
        tag("h4", row["question"]),
        tag("p", tag("span", "Evidence", cls="label"), row["evidence"]) if row["evidence"] else None,
        tag("p", verdict, " ", " · ".join(fact for fact in facts if fact), cls="facts"),
    )


def _observation(turn: Row) -> Html | None:
    """What the agent was told when nothing was executed, such as how to write an action."""
    text = turn["observation_text"]
    return tag("div", tag("p", text), cls="answer") if text else None


def _hindsight(turn: Row) -> Html | None:
    """What the teacher read and the agent did not, folded away; none where no teacher read the turn."""
    text = turn.get("hindsight_text")
    return tag("details", tag("summary", "Hindsight"), tag("pre", text.strip())) if text else None


def _rewards(row: Row) -> Html:
    terms = ", ".join(f"{name} {value:+.3g}" for name, value in row["reward_terms"].items())
    reward = tag("strong", f"{row['reward']:.3g}")
    advantage = tag("strong", f"{row['advantage']:+.3f}")
    return tag(
        "p",
        *(tag("span", "Reward", cls="label"), reward, f" ({terms})" if terms else None),
        *(tag("span", "Advantage", cls="label then"), advantage),
        cls="rewards",
    )


def _prompt(row: Row) -> Html:
    """The tokens before the first action, folded away."""
    end = row["turns"][0]["action"][0] if row["turns"] else len(row["tokens"])
    return tag("details", tag("summary", f"Prompt ({end} tokens)"), tag("pre", joined(row, 0, end)))
