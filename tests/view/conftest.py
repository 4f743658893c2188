"""A small run folder, written by the formats that the trainer and the evaluation use."""

import json
import math

import pytest

from serl.evaluate.summary import summarize
from serl.io import write_jsonl
from serl.tracking import RunFolder

HOSTILE = "</pre></style></script><script>hacked = 1</script><img src=x onerror=hacked=2>\x00\u202e"
"""Text that would end elements, run a script, hide, and turn what follows around."""


@pytest.fixture
def run_dir(tmp_path):
    return write_run(tmp_path / "run <b>1", steps=40)


@pytest.fixture
def trajectory():
    """Makes a recorded trajectory from a step and a kind of `TURNS`."""
    return make_trajectory


def write_run(path, steps):
    """A finished run in `path`, with trajectories of its last three steps and three evaluations."""
    folder = RunFolder(path)
    folder.write_config(
        {"name": HOSTILE, "train": {"lr": 1e-6, "steps": steps}, "hindsight": {"level": "exec"}}
    )
    folder.write_environment(["serl", "train", "--config", "serl_bird.yaml"])
    for step in range(1, steps + 1):
        folder.append_metrics(step, step_metrics(step, steps))
    for step in range(max(1, steps - 2), steps + 1):
        folder.write_trajectories(step, [row for kind in TURNS for row in make_group(step, kind)])
    for skill, stage in enumerate(("init", "sft", "rl")):
        target = path / "eval" / stage / "summary.json"
        target.parent.mkdir(parents=True)
        target.write_text(json.dumps(summarize(candidate_rows(skill), stage, n=8, seconds=42.0)))
        write_jsonl(target.with_name("candidates.jsonl"), candidate_rows(skill))
    return path


def step_metrics(step, steps):
    wave, done = math.sin(step * 2.1), step / steps
    metrics = {
        "reward/mean": 0.5 + 0.3 * done + 0.08 * wave,
        "reward/std": 0.35 - 0.1 * done,
        "ex/train": 0.45 + 0.3 * done + 0.09 * wave,
        "groups/zero_variance": 0.3 + 0.2 * done,
        "loss": 0.02 * wave,
        "grad_norm": 1.2 + 0.3 * wave,
        "kl": 0.001 * step,
        "ratio/clip_fraction": 0.02,
        "hindsight/coverage": 0.6,
        "hindsight/gap_mean": -0.05 + 0.01 * wave,
        "hindsight/weight_mean": 1 - 0.01 * wave,
        "hindsight/abs_adv_gain_pos": -0.01,
        "hindsight/abs_adv_gain_neg": 0.012,
        "hindsight/lambda": 0.5 * (1 - done) + 0.01,
        "gap/sign_pos": -0.04,
        "gap/sign_neg": -0.06,
        "weight/sign_pos": 0.99,
        "weight/sign_neg": 1.01,
        "teacher/lag": step % 10,
        "tokens/sampled": 4000 + 300 * wave,
        "turns/mean": 1.6,
        "time/prepare": 0.3,
        "time/rollout": 2.2,
        "time/sql": 0.4,
        "time/teacher": 0.8,
        "time/score": 0.7,
        "time/update": 1.6,
        "time/step": 6.2,
    }
    return metrics | (
        {"eval/seen": 0.5 + 0.25 * done, "eval/unseen": 0.4 + 0.2 * done} if step % 10 == 0 else {}
    )


def outcome(status="ok", columns=(), rows=(), row_count=None, error=""):
    count = len(rows) if row_count is None else row_count
    return {"status": status, "columns": columns, "rows": rows, "row_count": count, "error": error, "ms": 1.2}


NO_COLUMN = outcome("error", error="no such column: driver.surename <script>")
DRIVERS = outcome(columns=["surname", "points"], rows=[["Müller", 25.5], [HOSTILE, None]], row_count=312)
COUNT = outcome(columns=["COUNT(*)"], rows=[[18]])
LOOK = ("sql", "SELECT surename FROM driver WHERE code = 'MON'", NO_COLUMN)
LIST = ("sql", "SELECT surname, points FROM driver WHERE status = 'F'", DRIVERS)
TURNS = {
    "corrected": [LOOK, ("final", "SELECT surname, points FROM driver WHERE code = 'MON'", DRIVERS)],
    "correct": [LIST, ("final", "SELECT COUNT(*) FROM driver WHERE status = 'F' AND points > 10", COUNT)],
    "wrong": [("final", "SELECT COUNT(*) FROM driver", COUNT)],
    "malformed": [("malformed", HOSTILE, None)],
}


def make_group(step, kind, question_id=None):
    """Two samples of a question: of this kind, and a wrong one."""
    question_id = f"{kind}-{step}" if question_id is None else question_id
    return [make_trajectory(step, each) | {"sample": sample, "question_id": question_id}
            for sample, each in enumerate((kind, "wrong"))]


def make_trajectory(step, kind):
    """One recorded trajectory: prompt, then each turn's action and what the agent was told."""
    tokens, acts, turns = ["<|im_start|>", "user\n", "driver(", "id int pk", ")\n", HOSTILE], [0] * 6, []
    for turn_kind, sql, answer in TURNS[kind]:
        start = len(tokens)
        body = [f"{' ' if number else ''}{word}" for number, word in enumerate(sql.split(" "))]
        tokens += ["<think>", "count", "</think>\n", "<sql>", *body, "</sql>"]
        acts += [0] * 4 + [1] * len(body) + [0]
        end = len(tokens)
        tokens.append("\n<observation>…</observation>\n")
        acts.append(0)
        turns.append(
            {
                "kind": turn_kind,
                "state": [0, start],
                "action": [start, end],
                "sql": [start + 4, end - 1],
                "observation": [end, end + 1],
                "action_text": sql,
                "sql_text": sql,
                "observation_text": "no action found" if answer is None else "…",
                "outcome": answer,
            }
        )
    size, correct = range(len(tokens)), kind.startswith("correct")
    student = [-0.1 - 0.05 * (index % 7) if acts[index] else None for index in size]
    teacher = [-0.2 + 0.03 * (index % 11) if acts[index] else None for index in size]
    return {
        "step": step,
        "question_id": f"{kind}-{step}",
        "db_id": "formula_1",
        "question": f"How many drivers finished the race in Monaco? {HOSTILE}",
        "evidence": "finished means status = 'F'",
        "gold_sql": "SELECT COUNT(*) FROM driver WHERE status = 'F'",
        "difficulty": "moderate",
        "sample": 3,
        "seed": 7,
        "token_ids": list(size),
        "loss_mask": acts,
        "action_mask": acts,
        "sampler_logprobs": student,
        "student_logprobs": student,
        "teacher_logprobs": teacher,
        "gaps": [None if none is None else teacher[index] - none for index, none in enumerate(student)],
        "weights": [1 + 0.02 * ((index % 11) - 5) if acts[index] else 1.0 for index in size],
        "turns": turns,
        "tokens": tokens,
        "final_sql": TURNS[kind][-1][1] if kind != "malformed" else None,
        "reward": 1.0 if correct else 0.1,
        "reward_terms": {"execution": float(correct), "format": 0.1},
        "correct": correct,
        "advantage": 0.9 if correct else -1.1,
        "stop": "malformed" if kind == "malformed" else "final",
    }


def candidate_rows(skill):
    """60 questions with a greedy answer and 8 samples; the higher `skill` (0, 1, 2), the more of them are right."""
    rows = []
    for number in range(60):
        right = [(number * 7 + sample * 3) % 10 < 1 + 3 * skill for sample in range(9)]
        greedy, *samples = [candidate(is_right) for is_right in right]
        rows.append({
            "question_id": str(number), "db_id": ("formula_1", "gym")[number % 2], "seen": number % 3 > 0,
            "difficulty": ("simple", "moderate", "challenging")[number % 3],
            "question": f"Question {number}? {HOSTILE}", "evidence": "", "gold_sql": "SELECT 1",
            "gold": outcome("timeout" if number == 59 else "ok", ["1"], [[1]]), "greedy": greedy, "samples": samples,
        })
    return rows


def candidate(is_right):
    sql = "SELECT 1" if is_right else "SELECT 2 -- wrong"
    return {"sql": sql, "status": "ok", "correct": is_right, "result_key": str(is_right), "turns": 1, "tokens": 9,
            "mean_logprob": -0.25, "text": f"<solution>{sql}</solution>"}
