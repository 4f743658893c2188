"""Evaluate a policy: greedy and N samples a question, candidates and summary on disk."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from serl.agent.env import Environment
from serl.agent.rollout import Stream, rollout
from serl.agent.trajectory import Trajectory
from serl.asking import jobs_of, units_of
from serl.config import EvalConfig
from serl.evaluate.candidates import to_row, verdicts
from serl.evaluate.selecting import Selecting
from serl.evaluate.summary import summarize
from serl.generate.interface import Generator
from serl.io import atomic_write_text, write_jsonl
from serl.parallel import ALONE, Ranks
from serl.select.pool import Pool
from serl.select.sampled import candidate
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
    selecting: Selecting,
    folder: Path | None = None,
    ranks: Ranks = ALONE,
) -> dict[str, Any]:
    """Summary of `questions`; with `folder`, `candidates.jsonl` and `summary.json` are written into it.

    `n` samples a question are drawn beside the greedy answer (`options.n` is not looked at). `unseen` names the
    databases that training never touched. With several `ranks` each answers its share of the questions, and all
    return the summary of all answers.
    """
    start = time.perf_counter()
    streams: list[list[Stream]] = [[None, *((EVAL_STREAM, question.index, sample) for sample in range(n))]
                                   for question in questions]
    jobs = jobs_of(questions, streams)
    with tqdm(total=len(jobs), desc=f"evaluate {stage}", unit="answer", disable=not ranks.leads) as bar:
        trajectories = rollout(env, generator, sandbox, jobs, options.temperature, bar.update,
                               options.batch_size).trajectories
    sampled = ranks.most(time.perf_counter() - start)
    groups = [trajectories[i * (n + 1) : (i + 1) * (n + 1)] for i in range(len(questions))]
    pools = [_pool(question, group) for question, group in zip(questions, groups)]
    if n:
        pools = selecting.add_facts(questions, pools)
    rows = [to_row(question, pool, verdicts(group, question), question.example.db_id not in unseen, GOLD_ROWS)
            for question, group, pool in zip(questions, groups, pools)]
    shared = [[rows[place] for place in unit] for unit in units_of(questions)]
    rows = [row for unit in ranks.interleaved(shared, int(ranks.sum(len(shared)))) for row in unit]
    summary = summarize(rows, stage, n, ranks.most(time.perf_counter() - start), options.select,
                        picks=selecting.picks, confidence=options.confidence)
    if n:
        summary["selection"] |= selecting.costs(len(rows), n, sampled, ranks)
    if folder is not None and ranks.leads:
        write_jsonl(folder / "candidates.jsonl", rows)
        atomic_write_text(folder / "summary.json", json.dumps(summary, indent=1))
    return summary


def _pool(question: Question, trajectories: Sequence[Trajectory]) -> Pool:
    greedy, *samples = trajectories
    return Pool(question.example.question_id, question.example.db_id, candidate(greedy, greedy=True),
                tuple(map(candidate, samples)))
