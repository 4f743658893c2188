"""Steps until the last one, with probes and checkpoints on the way; a signal or a guard may end it between any two.

    step ─▶ its metrics, unfinished ─▶ probe, if one is due ─▶ metrics.jsonl ─▶ checkpoint, if one is due

What a step is, and what it depends on, a subclass says (`serl.train.trainer`). A checkpoint holds both and where the
loop stands, so that a resumed run is in the place of one that was never stopped.
"""

import json
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tqdm import tqdm

from serl.errors import InputError, Stopped
from serl.tracking import RunFolder, Tracker
from serl.train import checkpoint
from serl.train.guards import GuardStop
from serl.train.preempt import Preemption
from serl.train.probe import Best, probe, probe_metrics
from serl.workbench import Workbench


class Loop(ABC):
    """Where a run stands. With several ranks all go through it alike, and rank 0 writes."""

    apart: tuple[str, ...] = ()  # what of `state_dict` is another one on each rank

    def __init__(self, bench: Workbench, run: RunFolder, tracker: Tracker, preemption: Preemption) -> None:
        self.bench, self.run, self.tracker, self.preemption = bench, run, tracker, preemption
        self.config, self.ranks = bench.config, preemption.ranks
        self.train_split = bench.preparer.load_split(self.config.data.train_split, self.config.data.max_train)
        self.next_step = 0
        self.asked = 0  # questions drawn so far, by which `question_order` goes on
        self.unfinished: dict[str, float] | None = None  # metrics of the last step, until they are written
        self.best: Best | None = None
        self.checkpoints = Path(run.path) / "checkpoints"
        self._saved: int | None = None  # the step whose weights the newest checkpoint holds

    @abstractmethod
    def step(self, step: int) -> dict[str, float]:
        """Take a step; returns its metrics. Up to `preemption.hold` it may be dropped at any line."""

    @property
    @abstractmethod
    def version(self) -> tuple[int, ...]:
        """Changes with everything, but for `asked`, that a step changes."""

    @abstractmethod
    def state_dict(self) -> dict:
        """What the next step depends on besides the model and the loop."""

    @abstractmethod
    def load_state_dict(self, state: dict) -> None:
        """Go on from a `state_dict`; the loop has taken its own part."""

    @property
    def written(self) -> int:
        """Steps whose metrics have been written."""
        return self.next_step - (self.unfinished is not None)

    @property
    def finished(self) -> bool:
        """Whether all steps are done and saved."""
        return self.written >= self.config.train.steps and self._saved == (self.next_step or None)

    def sampling(self) -> AbstractContextManager[None]:
        """Where the policy itself samples, it does so within this."""
        return nullcontext()

    def train(self) -> None:
        """Run the remaining steps; metrics, trajectories and checkpoints go to the run folder."""
        steps = self.config.train.steps
        with (tqdm(desc="train", unit="step", initial=self.written, total=steps, disable=not self.ranks.leads) as bar,
              self.preemption.held()):
            while self.written < steps:
                if self.unfinished is None:
                    self.unfinished = self._take()
                metrics = self._finish(self.unfinished)
                bar.update()
                bar.set_postfix(reward=f"{metrics['reward/mean']:.3f}", ex=f"{metrics['ex/train']:.3f}")

    def save(self) -> Path:
        """Write a checkpoint of everything that the next step depends on; of weights that it has, the state alone."""
        state = {"next_step": self.next_step, "asked": self.asked, "questions": self.train_split.fingerprint,
                 "unfinished": self.unfinished and json.dumps(self.unfinished),
                 "best": self.best and self.best.state_dict(), **self.state_dict()}
        places = {"keep": self.config.train.keep, "best": self.best and self.best.step, "ranks": self.ranks,
                  "apart": self.apart}
        if self._saved == self.next_step:
            path = checkpoint.save_state(self.checkpoints, self.next_step, state, **places)
        else:
            path = checkpoint.save(self.checkpoints, self.next_step, self.bench.model, self.bench.tokenizer, state,
                                   **places)
        self._saved = self.next_step
        return path

    def restore(self, state: dict) -> None:
        """Continue from a checkpoint's state; the model's weights were loaded from the same folder."""
        now = self.train_split.fingerprint
        if (was := state.get("questions", now)) != now:  # older checkpoints do not say it
            raise InputError(f"{self.config.data.root}: the run so far had {was} to train on, now there are {now}, so "
                             "that it cannot go on exactly; restore the data, or, if a gold query was too slow this "
                             "time, try again")
        self.next_step = self._saved = state["next_step"]
        # Checkpoints that were written before there was a refill do not say it: then each step drew the same number.
        self.asked = state.get("asked", self.next_step * self.config.rollout.questions)
        self.unfinished = json.loads(state["unfinished"]) if state.get("unfinished") else None
        self.best = Best(**state["best"]) if state.get("best") else None
        if self.ranks.leads:
            checkpoint.prune(self.checkpoints, self.config.train.keep, self.best and self.best.step)
        self.load_state_dict(state)

    def _take(self) -> dict[str, float]:
        """The next step. If it ends before it has changed anything, the state of before it is saved."""
        asked, version = self.asked, self.version
        try:
            with self.preemption.droppable():
                metrics = self.step(self.next_step)
        except (Stopped, GuardStop):
            if self.version == version:
                self.asked = asked
                self._save_new()
            raise
        self.next_step += 1
        return metrics

    def _finish(self, metrics: dict[str, float]) -> dict[str, float]:
        """The probe, if one is due, the metrics and, if one is due, the checkpoint of the step that has been taken."""
        options, every, best = self.config.train, self.config.eval.every, self.best
        if every and self.next_step % every == 0:
            try:
                with self.sampling(), self.preemption.droppable():
                    summary = probe(self.bench)
            except Stopped:
                self._save_new()
                raise
            metrics = metrics | probe_metrics(summary)
            found = Best.of(self.next_step, summary)
            if options.keep_best and found is not None and found.beats(self.best):
                self.best = found
        if self.ranks.leads:
            self.run.append_metrics(self.next_step - 1, metrics)
            self.tracker.log(self.next_step - 1, metrics)
        self.unfinished, told = None, self.preemption.told()
        due = self.next_step % options.save_every == 0 or self.next_step == options.steps
        if told or due or self.best != best:
            self.save()
        if told:
            self.preemption.leave()
        return metrics

    def _save_new(self) -> None:
        """Save what no checkpoint holds yet; before the first step there is nothing."""
        if self.next_step not in (0, self._saved):
            self.save()
