"""Evaluate a policy: greedy and N samples a question, candidates and summary on disk."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from serl.agent.env import Environment
from serl.agent.rollout import Job, rollout
from serl.config import EvalConfig
from serl.evaluate.candidates import candidate
from serl.evaluate.summary import summarize
from serl.generate.interface import Generator
from serl.io import atomic_write_text, write_jsonl
from serl.parallel import ALONE, Ranks
from serl.sql.sandbox import Sandbox
from serl.task import Question

GOLD_ROWS = 20  # rows of a gold result kept for reading; verdicts are stored, so nothing needs the rest
EVAL_STREAM = 1  # first entry of every random stream of an evaluation; training uses 0


def evaluate(
    env: Environment,
    generator: Generator,
    sandbox: Sandbox,
    questions: Sequence[Question],
    unseen: set[str],
    n: int,
    options: EvalConfig,
    stage: str,
    folder: Path | None = None,
    ranks: Ranks = ALONE,
) -> dict[str, Any]:
    """Summary of `questions`; with `folder`, `candidates.jsonl` and `summary.json` are written into it.

    `n` samples a question are drawn beside the greedy answer (`options.n` is not looked at). `unseen` names the
    databases that training never touched. With several `ranks` each answers its share of the questions, and all
    return the summary of all answers.
    """
    start = time.perf_counter()
    jobs = []
    for question in questions:
        streams = [None] + [(EVAL_STREAM, question.index, sample) for sample in range(n)]
        jobs += [Job(question.example, question.prompt_ids, stream) for stream in streams]
    with tqdm(total=len(jobs), desc=f"evaluate {stage}", unit="answer", disable=not ranks.leads) as bar:
        trajectories = rollout(env, generator, sandbox, jobs, options.temperature, bar.update,
                               options.batch_size).trajectories
    rows = [
        _row(question, trajectories[i * (n + 1) : (i + 1) * (n + 1)], unseen)
        for i, question in enumerate(questions)
    ]
    rows = ranks.interleaved(rows, int(ranks.sum(len(rows))))
    summary = summarize(rows, stage, n, ranks.most(time.perf_counter() - start), options.select)
    if folder is not None and ranks.leads:
        write_jsonl(folder / "candidates.jsonl", rows)
        atomic_write_text(folder / "summary.json", json.dumps(summary, indent=1))
    return summary


def _row(question: Question, trajectories: list, unseen: set[str]) -> dict[str, Any]:
    greedy, *samples = [candidate(trajectory, question) for trajectory in trajectories]
    example = question.example
    return {
        "question_id": example.question_id,
        "db_id": example.db_id,
        "seen": example.db_id not in unseen,
        "difficulty": example.difficulty,
        "question": example.question,
        "evidence": example.evidence,
        "gold_sql": example.gold_sql,
        "gold": question.gold.to_json(GOLD_ROWS),
        "greedy": greedy,
        "samples": samples,
    }
