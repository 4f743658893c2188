"""Evaluate a workbench's policy on its evaluation split: a stage of a run, or a point of its learning curve."""

from pathlib import Path
from typing import Any

from serl.evaluate.runner import evaluate
from serl.evaluate.selecting import Selecting
from serl.task import unseen
from serl.workbench import Workbench


def evaluate_stage(bench: Workbench, stage: str, out: Path | None, n: int, limit: int | None = None) -> dict[str, Any]:
    """Summary of the current weights; with `out`, candidates and summary go into that folder.

    `limit` takes a sample of the questions (default: the config's `data.max_eval`).
    """
    config = bench.config
    split = bench.preparer.load_split(config.data.eval_split, config.data.max_eval if limit is None else limit)
    return evaluate(bench.env, bench.generator(config.eval.batch_size), bench.sandbox,
                    bench.preparer.prepare_share(split), unseen(split.examples, config), n, config.eval, stage,
                    Selecting(bench), out, bench.ranks)
