"""A whole run: evaluate, train, evaluate, report; whatever of it is done already is skipped."""

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from serl import model as models
from serl.agreement import check_agreement
from serl.config import Config, to_dict
from serl.errors import InputError
from serl.evaluate.selecting import reward_of
from serl.evaluate.stage import evaluate_stage
from serl.evaluate.summary import read_summaries
from serl.parallel import Ranks, open_ranks
from serl.reward.panel import terms_of
from serl.task import load_examples
from serl.tracking import RunFolder, Tracker, tracking
from serl.train import checkpoint
from serl.train.failure import reported
from serl.train.preempt import Preemption
from serl.train.trainer import Trainer
from serl.view.picture import write_picture
from serl.view.report import write_report
from serl.workbench import Workbench, open_workbench, workbench_of


def train_run(config: Config, folder: Path) -> list[dict[str, Any]]:
    """Run `config` in `folder`, or go on with it; returns the evaluation summaries.

    Stages: `init` (random weights, if asked for), `sft` (the policy that RL starts from), `rl`. Input is
    checked before the folder is made, so that a mistyped path leaves nothing behind. Whatever ends a run that has a
    folder is one line that says how to go on (`serl.train.failure`), signals too (`serl.train.preempt`). Several
    processes that a launcher has started share the work; rank 0 writes the folder.
    """
    with (open_ranks(config.engine.timeout_s) as ranks,
          Preemption(ranks, drops=config.engine.kind == "torch").listening() as preemption):
        return _train_run(config, folder, ranks, preemption)


def _train_run(config: Config, folder: Path, ranks: Ranks, preemption: Preemption) -> list[dict[str, Any]]:
    if config.grounding.asks_policy:
        raise InputError(f"config: grounding.links {config.grounding.links} would ask the policy, which training "
                         "changes; serve the model that it starts from, and name it by grounding.chat_url")
    terms_of(config.reward)  # a term that cannot be imported is told of now
    reward_of(config)  # its weights are there, or it is said now and not when the first evaluation ends
    if ranks.leads and (folder / "config.yaml").exists():  # before another process removes what is to be read
        RunFolder(folder).claim()
    newest = ranks.first(lambda: checkpoint.latest(folder / "checkpoints"))
    for split in (config.data.train_split, config.data.eval_split):  # before gigabytes of weights are read
        load_examples(config, split)
    with open_workbench(config, str(newest) if newest else None, ranks) as bench:
        for split in (config.data.train_split, config.data.eval_split):
            bench.preparer.load_split(split)
        if bench.own_teacher is not None:  # it is kept: Trainer asks for it again
            check_agreement(ranks, config, {"hindsight.teacher.path": bench.own_teacher})
        run, trainer = RunFolder(folder), None
        if ranks.leads:
            run.claim()
        with reported(folder, lambda: _place(trainer)):
            if ranks.leads:
                run.write_config(to_dict(config))
                run.write_environment()
            _evaluate_before(bench, folder, resumed=newest is not None)
            with tracking(config, folder) if ranks.leads else nullcontext(Tracker("disabled")) as tracker:
                trainer = Trainer(bench, run, tracker, preemption)
                if newest is not None:
                    trainer.restore(checkpoint.load_state(newest, ranks))
                if ranks.leads:
                    run.rewind(trainer.written, trainer.next_step)
                    if trainer.written < config.train.steps:  # an earlier, shorter run's result is not this one's
                        shutil.rmtree(folder / "eval" / "rl", ignore_errors=True)
                trainer.train()
                if not _evaluated(bench, folder, "rl"):
                    with trainer.sampling():
                        evaluate_stage(bench, "rl", folder / "eval" / "rl", config.eval.n)
                summaries = ranks.first(lambda: read_summaries(folder))
                tracker.log(config.train.steps, _final_metrics(summaries))
            if ranks.leads:
                write_picture(folder)
                write_report(folder)
    return summaries


def _place(trainer: Trainer | None) -> str:
    """Where a run is, for people."""
    if trainer is None:
        return "the evaluation before training"
    if trainer.finished:
        return "the evaluation after training"
    return f"step {trainer.next_step} of {trainer.config.train.steps}"


def _evaluate_before(bench: Workbench, folder: Path, resumed: bool) -> None:
    """The stages before RL, unless they are done: `init` and `sft`."""
    config = bench.config
    if config.eval.untrained > 0 and not _evaluated(bench, folder, "init"):
        untrained = models.untrained(bench.model, config.seed)
        with workbench_of(config, untrained, bench.tokenizer, bench.ranks) as fresh:
            evaluate_stage(fresh, "init", folder / "eval" / "init", 0, config.eval.untrained)
    if config.eval.start and not _evaluated(bench, folder, "sft"):
        if resumed:
            raise InputError(f"{folder}: resumed without eval/sft/summary.json, and the starting weights are "
                             "gone; resume with --eval.start false")
        evaluate_stage(bench, "sft", folder / "eval" / "sft", config.eval.n)


def _evaluated(bench: Workbench, folder: Path, stage: str) -> bool:
    return bench.ranks.first((folder / "eval" / stage / "summary.json").is_file)


def _final_metrics(summaries: list[dict[str, Any]]) -> dict[str, float]:
    return {f"{summary['stage']}/{split}/{metric}": estimate["value"] for summary in summaries
            for split, metrics in summary["splits"].items() for metric, estimate in metrics.items()}
