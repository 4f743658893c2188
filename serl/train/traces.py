"""Warm-start traces written from gold: what an agent that knows the answer would have done.

    direct    solution                                   check     query = gold, answer, solution
    probe     look a value up, answer, solution          correct   wrong query, answer, solution

Of dialogues with a memory, and where an order is kept, the policy verifies what it does (`serl.train.verified`). With
`sft.reasoning` some thinking stands in front of the solution.

Every answer is the database's own. The wrong query of `correct` is context, not a target: the policy learns
to correct it, not to make it. Mostly it is one whose answer shows that it is wrong (an error, no row, nothing
but NULL or 0): else the policy would learn to distrust every answer, and change right queries into wrong ones.
Some traces show the teacher's view instead, so that its context is in the distribution of the weights it starts
from: the target is gold's action behind the empty frame, behind what the database answered to gold, or behind
what it answered to a wrong query.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from serl.agent.dialects import Kind, Tool
from serl.agent.env import Environment, Episode
from serl.agent.memory import Prior
from serl.config import Config
from serl.hindsight.context import Hindsight, empty_hindsight, make_hindsight, teacher_input
from serl.hindsight.facts import Facts
from serl.hindsight.levels import ContextOptions
from serl.hindsight.teacher_only import GoldAnswer
from serl.sql.compare import is_ordered, strict
from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Sandbox
from serl.task import Question
from serl.train.mutate import Schema, mutations, probes
from serl.train.parts import ask_parts, tells_parts
from serl.train.reasoning import reasoning
from serl.train.verified import Step, verified

PLANS = (("direct", 0.4), ("check", 0.25), ("probe", 0.1), ("correct", 0.25))
SHOWN = 0.85  # share of the wrong queries whose answer shows it, where there is such a one
CANDIDATES = 5  # wrong queries that are tried for a question


@dataclass(frozen=True)
class Trace:
    """Token ids and, for each, whether it is a target."""

    kind: str
    ids: list[int]
    target: list[int]


@dataclass(frozen=True)
class TraceWriter:
    """Writes traces for questions of databases whose columns are `schemas[db_id]`."""

    env: Environment
    sandbox: Sandbox
    config: Config
    schemas: dict[str, Schema]

    def write(self, questions: Sequence[Question], seed: int) -> list[Trace]:
        """At most one trace a question, the same for the same seed; SQL of all of them runs in parallel.

        A question whose trace the policy could not have written (an action above its token cap or beyond its dialect,
        or a conversation above the model's length) has none, nor has one without the reasoning asked for.
        """
        randoms = [Random(f"{seed}/{question.example.question_id}") for question in questions]
        wrong = self._wrong_queries(questions, randoms)
        plans = [self._plan(question, bad, random) for question, bad, random in zip(questions, wrong, randoms)]
        outcomes = iter(self.sandbox.run_many([(question.example.db_path, step.sql) for question, plan in
                                               zip(questions, plans) for step in plan.steps if _runs(step)]))
        traces = []
        for plan, random in zip(plans, randoms):
            answers = [next(outcomes) if _runs(step) else None for step in plan.steps]
            trace = self._play(plan, answers, random)
            if trace is not None:
                traces.append(trace)
        return traces

    def _play(self, plan: "_Plan", answers: Sequence[Outcome | None], random: Random) -> Trace | None:
        past = plan.question.past
        memory = None if past is None else partial(replace(past, prior=Prior.GOLD).memory, {})
        episode = self.env.start(list(plan.question.prompt_ids), memory)
        for (kind, sql, verdicts), outcome in zip(plan.steps, answers):
            thinking = self._thinking(plan.question, random) if kind is Kind.FINAL else ""
            if thinking is None:
                return None
            try:
                ids = self.encode(self.env.dialect.write(kind, sql, thinking, verdicts))
            except ValueError:  # it holds what would close it
                return None
            if episode.done or len(ids) > self.config.agent.max_new_tokens:
                return None
            episode.act(ids, [0.0] * len(ids))
            episode.observe(outcome)
        trace = self._trace(episode, plan, random)
        return trace if len(trace.ids) <= self.config.model.max_length else None

    def _thinking(self, question: Question, random: Random) -> str | None:
        """What stands in front of the solution, "" for no thinking; None where there is none to be had."""
        how = self.config.sft.reasoning
        if how in ("none", "empty"):
            return "" if how == "none" else "\n"
        text = (question.example.reasoning if how == "given" else
                reasoning(question.example.gold_sql, question.schema, random))
        opened = "" if self.env.dialect.thinking_open else "\n"  # the prompt's own opening ends its line
        return f"{opened}{text.strip()}\n" if text else None

    def encode(self, text: str) -> list[int]:
        return self.env.tokenizer.encode(text, add_special_tokens=False)

    def _wrong_queries(self, questions: Sequence[Question], randoms: Sequence[Random]) -> list["_Wrong | None"]:
        """For each question one mutation of gold whose result differs from gold's, if there is one and a use for it."""
        if self.config.agent.max_turns < 2 and not self.config.sft.hindsight_share:
            return [None] * len(questions)
        candidates = [(number, sql) for number, (question, random) in enumerate(zip(questions, randoms))
                      for sql in list(mutations(question.example.gold_sql, self.schemas[question.example.db_id],
                                                random))[:CANDIDATES]]
        outcomes = self.sandbox.run_many([(questions[n].example.db_path, sql) for n, sql in candidates])
        found: list[dict[bool, str]] = [{} for _ in questions]  # by whether the answer shows it
        for (number, sql), outcome in zip(candidates, outcomes):
            question = questions[number]
            if not strict(outcome, question.gold, is_ordered(question.example.gold_sql)).match:
                found[number].setdefault(_shows(outcome), sql)
        return [_choose(wrong, random.random() < SHOWN) for wrong, random in zip(found, randoms)]

    def _plan(self, question: Question, wrong: "_Wrong | None", random: Random) -> "_Plan":
        gold = question.example.gold_sql
        kind = random.choices([name for name, _ in PLANS], [share for _, share in PLANS])[0]
        lookups = probes(gold, self.schemas[question.example.db_id])
        first: list[Step] = []
        if kind == "check":
            first = [Step(Kind.SQL, gold)]
        elif kind == "probe" and lookups:
            first = [Step(Kind.SQL, random.choice(lookups))]
        elif kind == "correct" and wrong is not None:
            first = [Step(Kind.SQL, wrong.sql)]
        else:
            kind = "direct"
        if self.config.agent.max_turns < 2:
            kind, first = "direct", []
        steps, agent = [*first, Step(Kind.FINAL, gold)], self.config.agent
        if agent.order != "off" or (Tool.MEMORY in agent.tools and kind != "direct"):
            kind = "correct" if kind == "correct" else "check"
            refuted = wrong if kind == "correct" else None
            steps = verified(gold, refuted and refuted.sql, refuted is None or refuted.shows,
                             memory=Tool.MEMORY in agent.tools)
        return _Plan(kind, steps, wrong and wrong.sql, question)

    def _trace(self, episode: Episode, plan: "_Plan", random: Random) -> Trace:
        trajectory = episode.trajectory
        if random.random() < self.config.sft.hindsight_share:
            return self._teacher_trace(episode, plan, random)
        target = list(trajectory.loss_mask)
        if plan.kind == "correct":
            start, end = trajectory.turns[0].action
            target[start:end] = [0] * (end - start)
        return Trace(plan.kind, trajectory.token_ids, target)

    def _teacher_trace(self, episode: Episode, plan: "_Plan", random: Random) -> Trace:
        turn = episode.trajectory.turns[-1]
        view = random.choice(("empty", "gold", "wrong"))
        facts = None
        if view == "wrong" and plan.wrong is not None:
            outcome = self.sandbox.run(plan.question.example.db_path, plan.wrong)
            facts = self._facts(plan.question, outcome, plan.wrong, correct=False)
        elif view == "gold":
            facts = self._facts(plan.question, turn.outcome, turn.parsed.sql, correct=True)
        hindsight = None if facts is None else make_hindsight(facts, self.options, self.encode)
        if hindsight is None:
            view, hindsight = "empty", self._empty_frame()
        ids, start = teacher_input(episode.trajectory, turn, hindsight)
        return Trace(f"teacher {view}", ids, [0] * start + [1] * (len(ids) - start))

    def _facts(self, question: Question, outcome: Outcome | None, sql: str | None, correct: bool) -> Facts:
        """Facts of a solution; no sibling, since the only one there could be is gold, which is the target."""
        gold = GoldAnswer(question.example.gold_sql, question.gold)
        parts = None
        if tells_parts(self.config) and sql is not None and outcome is not None:
            (parts,) = ask_parts(self.sandbox, [(question.example.db_path, sql, outcome.status)])
        return Facts(outcome, sql, final=True, correct=correct, gold=gold, parts=parts)

    @property
    def options(self) -> ContextOptions:
        return ContextOptions.of(self.config)

    def _empty_frame(self) -> Hindsight:
        hindsight = empty_hindsight(self.options, self.encode)
        if hindsight is None:
            raise ValueError("hindsight.budget does not hold the empty frame")
        return hindsight


def _shows(outcome: Outcome) -> bool:
    """Whether an answer looks wrong on its face: it failed, or has nothing but NULL or 0."""
    return outcome.status is not Status.OK or not any(cell for row in outcome.rows for cell in row)


def _runs(step: Step) -> bool:
    """Whether the database answers it."""
    return step.kind is not Kind.RECALL


@dataclass(frozen=True)
class _Wrong:
    sql: str
    shows: bool  # whether its answer looks wrong


def _choose(found: Mapping[bool, str], shows: bool) -> _Wrong | None:
    """One of the wrong queries by whether they show it, of the other kind if there is none."""
    if not found:
        return None
    kind = shows if shows in found else not shows
    return _Wrong(found[kind], kind)


@dataclass(frozen=True)
class _Plan:
    kind: str
    steps: list[Step]
    wrong: str | None
    question: Question
