"""A step of training: rollouts, rewards, hindsight, update. One call of `step` is one rollout batch.

    questions ─ rollout ─▶ trajectories ─ reward ─▶ advantages A
    teacher's log-probs with hindsight, old policy's log-probs ─▶ weights ω
    loss(A·ω) ─▶ update ─▶ teacher follows ─▶ metrics, trajectories, checkpoint (serl.train.loop)

Everything random is a function of (seed, step, place in the step, sample), and a checkpoint knows how many questions
were drawn, so that a resumed run repeats exactly what an uninterrupted one would have done. For the same reason several
ranks sample what one would: each has the questions at its places of a step, all the way to the update, and metrics and
files are of all of them (`serl.train.together`).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from serl.agent.rollout import RolloutResult, rollout
from serl.asking import jobs_of
from serl.config import TeacherConfig
from serl.config.rules import DISTILLED
from serl.errors import InputError
from serl.hindsight.context import frame
from serl.hindsight.diagnostics.cost import own_bytes, peak_memory
from serl.hindsight.facts import know
from serl.hindsight.levels import ContextOptions
from serl.hindsight.schedule import lambda_at
from serl.hindsight.teacher import Teacher
from serl.hindsight.teacher_only import GoldAnswer
from serl.reward.panel import Panel
from serl.task import Question, question_order
from serl.tracking import RunFolder, Tracker
from serl.train import states
from serl.train.advantages import group_advantages, step_advantages
from serl.train.ahead import Ahead
from serl.train.clock import Clock
from serl.train.credit.evidence import add_evidence
from serl.train.credit.watch import Watch
from serl.train.diagnose import contexts_of, diagnose
from serl.train.distill import distill
from serl.train.engine import constant_with_warmup, linear_decay
from serl.train.engines import make_engine, sampling
from serl.train.groups import Group, fill
from serl.train.guards import Guards
from serl.train.loop import Loop
from serl.train.parts import add_parts, tells_parts
from serl.train.preempt import Preemption
from serl.train.samples import Sample, add_reference, add_student, add_teacher
from serl.train.together import (
    all_groups,
    batch_metrics,
    first_hinted,
    largest,
    regrouped,
    samples_of,
    write_guarded,
    write_hindsight,
    write_trajectories,
)
from serl.train.update import update
from serl.workbench import Workbench

TRAIN_STREAM = 0  # first entry of every random stream of training; evaluation uses 1


class Trainer(Loop):
    """State of a run: model, optimizer, teacher, counters. `bench` holds what does not change."""

    def __init__(self, bench: Workbench, run: RunFolder, tracker: Tracker, preemption: Preemption | None = None
                 ) -> None:
        super().__init__(bench, run, tracker, preemption or Preemption(bench.ranks))
        options = self.config.train
        hindsight = self.config.hindsight
        self._has_teacher = hindsight.source == "teacher_gap"
        # Without a teacher to ask there is none to keep: a live one is the student itself.
        self.teacher = Teacher(bench.model, hindsight.teacher if self._has_teacher else TeacherConfig(mode="live"),
                               bench.own_teacher)
        self.reference = bench.reference() if options.kl_beta > 0.0 else None
        self.ahead = Ahead(bench.model) if self.config.rollout.overlap else None
        schedule = (constant_with_warmup(options.warmup_steps) if options.lr_decay_steps is None
                    else linear_decay(options.lr_decay_steps, options.warmup_steps))
        beside = [copy.model for copy in (self.teacher, self.reference) if copy is not None]
        self.engine = make_engine(self.config, bench.model, schedule, beside, self.ranks)
        self.apart, self.guards = self.engine.apart, Guards(options.guards, self.engine.over_ranks)
        self.panel = Panel.of(self.config.reward, bench.env.token_bytes.of)
        self.watch = Watch(self.config, bench.encode, bench.env.token_bytes.of, warns=self.ranks.leads)
        self.distilled = options.loss in DISTILLED
        if self.distilled:
            states.check(bench.model)
            if bench.own_teacher is not None:
                states.check_pair(bench.model, bench.own_teacher)
        teaches = self._has_teacher and (self.distilled or hindsight.lambda0 > 0.0)
        if teaches and frame("text", bench.encode, hindsight.budget, tag=hindsight.wording.tag) is None:
            raise InputError(f"config: hindsight.budget {hindsight.budget} does not hold the frame of a "
                             "hindsight text; raise it, or set hindsight.lambda0 to 0 for plain GRPO")
        # What a step draws: questions, or dialogues; and how many places in a step each of them has.
        self.units = bench.preparer.units(self.train_split)
        self.stride = max(map(len, self.units), default=1)
        self.updates = 0  # calls of `update`, also those whose batch had no signal: λ and the teacher follow them

    def step(self, step: int) -> dict[str, float]:
        """One rollout batch and its update(s); returns the metrics, those of an update from the batch's last pass.

        A live teacher reads within the update's own forward pass where it can: `time/update` holds its time then. With
        several ranks, times and memory are the largest of any rank.
        """
        clock = Clock()
        options = self.config.train
        groups, dropped, rounds = self.gather(step, clock)
        behind = self.updates - self.ahead.updates if self.ahead is not None else 0
        self._look_ahead(step + 1, clock)
        self.bench.rest()
        questions, batch = [group.question for group in groups], samples_of(groups)
        # Token weights play no part where the teacher is imitated: `distill` asks it itself.
        lam = 0.0 if self.distilled else lambda_at(self.updates, self.config.hindsight,
                                                   options.steps * options.updates_per_batch)
        if self.reference is not None:
            with clock("time/score"):
                batch = add_reference(self.reference.model, batch, self.config)
        if self._teaches(lam) and tells_parts(self.config):
            with clock("time/parts"):
                batch = self._add_parts(batch, questions)
        metrics = {"groups/refill_rounds": float(rounds), "hindsight/lambda": lam, "rollout/lag": float(behind),
                   "teacher/lag": float(self.teacher.updates_behind),
                   "teacher/own_bytes": float(own_bytes(self.teacher.model, self.bench.model))}
        with clock("time/teacher"), peak_memory(self.teacher.model, metrics, "teacher/peak_bytes"):
            batch, skipped = self._add_credit(batch, questions, lam)
        metrics["hindsight/skipped_turns"] = self.ranks.sum(skipped)
        every = self.config.hindsight.diagnose_every
        if self._has_teacher and lam > 0.0 and every and step % every == 0:
            with clock("time/diagnose"):
                metrics |= self._diagnose(regrouped(groups, batch), step)
        if self.watch.is_due(step, lam):
            with clock("time/gate"):
                metrics |= self.watch.metrics(step, all_groups(self.ranks, regrouped(groups, batch)), self.bench.model,
                                              self.teacher.model)
        if options.score_first:
            with clock("time/score"):
                batch = add_student(self.bench.model, batch, lam, self.config)
        metrics |= self.guards.look([*batch, *samples_of(dropped)])
        self.preemption.hold()
        with clock("time/update"):
            for _ in range(options.updates_per_batch):
                loss, batch = self._update(batch, lam)
                metrics |= self.guards.settle(loss, partial(self._keep, step, regrouped(groups, batch)))
                self.updates += 1
                self.teacher.after_update(self.bench.model, self.updates)
        self.bench.weights_changed()
        groups, piece = regrouped(groups, batch), self.bench.env.token_bytes.of
        whole = batch_metrics(self.ranks, groups, dropped, self.config, piece)
        if self.config.hindsight.dump and (lam > 0.0 or self.distilled):
            write_hindsight(self.run, self.ranks, step, groups, self.config.hindsight.level, piece)
        if options.save_trajectories:
            write_trajectories(self.run, self.ranks, step, groups, dropped, self.config.seed, piece)
        clock.seconds["time/rollout"] -= clock.seconds["time/sql"]
        return whole | largest(self.ranks, metrics | self.bench.engine_metrics() | clock.seconds
                               | {"time/step": clock.total()})

    def gather(self, step: int, clock: Clock) -> tuple[list[Group], list[Group], int]:
        """The step's groups, those that others were sampled in place of, and the rounds of this (see `fill`).

        With several ranks: this rank's of them.
        """
        start, size = self.asked, self.config.rollout.group_size

        def ask(count: int) -> list[Group]:
            with clock("time/prepare"):
                questions, places = self.questions(count, self.asked - start)
            with clock("time/rollout"):
                work = partial(self.roll_out, step, questions, places)
                result = work() if self.ahead is None else self.ahead.result(work)
            clock.add("time/sql", result.sql_wait_seconds if self.ahead is None else 0.0)
            clock.add("time/sql_meanwhile", result.sql_seconds)
            self.asked += count
            with clock("time/score"):
                samples = self.judge(result, questions)
            return [Group(question, samples[i * size: (i + 1) * size], place)
                    for i, (question, place) in enumerate(zip(questions, places))]

        return fill(ask, self.config.rollout.questions, self.config.train.refill, self.ranks)

    def questions(self, count: int, drawn: int = 0) -> tuple[list[Question], list[int]]:
        """The questions of the run's next units: this rank's, and their places in a step that has `drawn` so many."""
        order = question_order(len(self.units), self.config.seed, self.asked, count)
        units = [self.units[unit] for unit in order]
        places = [(drawn + place) * self.stride + turn for place in self.ranks.share(count)
                  for turn in range(len(units[place]))]
        return self.bench.preparer.prepare_share(self.train_split, units), places

    def _look_ahead(self, step: int, clock: Clock) -> None:
        """With `rollout.overlap`, begin the rollout of a step by the present weights, if the run has such a step."""
        if self.ahead is None:
            return
        self.preemption.hold()
        self.ahead.follow(self.bench.model, self.updates)
        if step < self.config.train.steps:
            with clock("time/prepare"):
                questions, places = self.questions(self.config.rollout.questions)
            self.ahead.start(partial(self.roll_out, step, questions, places))

    def roll_out(self, step: int, questions: Sequence[Question], places: Sequence[int] | None = None, model=None
                 ) -> RolloutResult:
        """Sample a group of trajectories for each question; `places` are theirs in the step (None: 0, 1, ...)."""
        # The place in the step, not the question, names the stream: a question may come twice in one step.
        places = range(len(questions)) if places is None else places
        jobs = jobs_of(questions, [[(TRAIN_STREAM, step, place, number)
                                    for number in range(self.config.rollout.group_size)] for place in places])
        options = self.config.rollout
        with self.sampling():
            return rollout(self.bench.env, self.bench.generator(options.batch_size, model), self.bench.sandbox, jobs,
                           options.temperature, at_once=options.batch_size, deadline_s=options.deadline_s,
                           patience_s=options.patience_s)

    def judge(self, result: RolloutResult, questions: Sequence[Question]) -> list[Sample]:
        """Rewards and advantages, group by group."""
        size, samples, options = self.config.rollout.group_size, [], self.config.train
        standardize = options.loss != "dr_grpo"
        for number, question in enumerate(questions):
            group = result.trajectories[number * size: (number + 1) * size]
            rewards = [self.panel.score(trajectory, question.example, question.gold) for trajectory in group]
            advantages = group_advantages([scored and scored.total for scored in rewards], options.advantage_eps,
                                          standardize)
            steps = [None] * size
            if options.credit == "step":
                steps = step_advantages([scored and scored.total for scored in rewards],
                                        [scored.actions if scored else (0.0,) * len(trajectory.turns)
                                         for scored, trajectory in zip(rewards, group)], options.advantage_eps,
                                        standardize)
            known = know(question.example.question_id, [trajectory.final_sql for trajectory in group],
                         [scored and scored.correct for scored in rewards],
                         GoldAnswer(question.example.gold_sql, question.gold))
            samples += [Sample.of(*row) for row in zip(group, rewards, advantages, known, steps)]
        return samples

    def _teaches(self, lam: float) -> bool:
        """Whether a teacher reads hindsight in this step."""
        return self._has_teacher and (self.distilled or lam > 0.0)

    def _add_parts(self, samples: Sequence[Sample], questions: Sequence[Question]) -> list[Sample]:
        """Samples of groups of equal size with what the parts of their actions did."""
        size = self.config.rollout.group_size
        return add_parts(self.bench.sandbox, samples, [questions[place // size].example.db_path
                                                       for place in range(len(samples))])

    def _add_credit(self, samples: Sequence[Sample], questions: Sequence[Question], lam: float
                    ) -> tuple[list[Sample], int]:
        """What the credit source needs to know before the update, and how many turns had no room for hindsight."""
        if self._has_teacher:
            return add_teacher(self.teacher.model, samples, self.bench.encode, lam, self.config)
        examples = [question.example for question in questions]
        return add_evidence(self.bench.model, samples, examples, lam, self.config, self.bench.env.token_bytes.of,
                            self.bench.sandbox), 0

    @property
    def version(self) -> tuple[int, ...]:
        return self.updates, 0 if self.ahead is None else self.ahead.updates

    def state_dict(self) -> dict:
        return {"updates": self.updates, "skipped": self.guards.skipped, "first_entropy": self.guards.first_entropy,
                "engine": self.engine.state_dict(), "teacher": self.teacher.state_dict(),
                "reference": self.reference.state_dict() if self.reference is not None else None,
                "ahead": self.ahead.state_dict() if self.ahead is not None else None}

    def load_state_dict(self, state: dict) -> None:
        self.updates, self.guards.skipped = state["updates"], state.get("skipped", 0)
        self.guards.first_entropy = state.get("first_entropy")
        self.engine.load_state_dict(state["engine"])
        self.teacher.load_state_dict(state["teacher"])
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])
        if self.ahead is not None:
            self.ahead.load_state_dict(state.get("ahead"), self.updates)

    def sampling(self) -> AbstractContextManager[None]:
        return sampling(self.engine, self.config)

    def _update(self, batch: Sequence[Sample], lam: float) -> tuple[dict[str, float], list[Sample]]:
        if self.distilled:
            return distill(self.engine, self.teacher.model, batch, self.bench.encode, self.config, self.guards.step)
        return update(self.engine, batch, lam, self.config, self.guards.step)

    def _diagnose(self, groups: Sequence[Group], step: int) -> dict[str, float]:
        """The gap of some trajectories beside its controls and its noise floor: on every rank that of the same ones."""
        chosen = first_hinted(self.ranks, groups, self.config.hindsight.diagnose_trajectories)
        contexts = contexts_of(chosen, ContextOptions.of(self.config), self.bench.encode, step)
        return diagnose(self.bench.model, self.teacher.model, chosen, contexts, self.config)

    def _keep(self, step: int, groups: Sequence[Group], reason: str) -> Path:
        """Write a batch that is not learned from."""
        piece = self.bench.env.token_bytes.of
        return write_guarded(self.run, self.ranks, step, groups, reason, self.config.seed, piece)
