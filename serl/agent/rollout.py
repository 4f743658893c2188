"""Rollouts: many episodes at once, and no barrier between their turns.

While the generator decodes, the sandbox runs the SQL of other trajectories; an observation that is ready goes back in
as the next request. Trajectory i draws from its own random streams, so who ends first does not influence any of them.

What batches are made of does change the last bits of float sums (see `serl.generate.hf`). So that a run repeats bit for
bit all the same, an answer is due one poll of a stepwise generator after it was asked for, and waited for if it is not
there: the order of events does not depend on how fast the machine is. A query that is still not done after `patience_s`
is not waited for, nor is that database again: its trajectory comes back when it does.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from serl.agent.env import Environment, Episode
from serl.agent.trajectory import Trajectory
from serl.data.example import Example
from serl.generate.interface import Generation, Generator, Request
from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Query, Sandbox


@dataclass(frozen=True)
class Job:
    """One trajectory to sample: its question, prompt tokens and random stream (None: greedy)."""

    example: Example
    prompt_ids: tuple[int, ...]
    stream: tuple[int, ...] | None


@dataclass(frozen=True)
class RolloutResult:
    """Trajectories in the order of the jobs, and where the time went, in seconds."""

    trajectories: list[Trajectory]
    generate_seconds: float  # in the generator
    sql_wait_seconds: float  # in which nothing was done but wait for SQL
    sql_seconds: float  # that the database worked, most of it meanwhile


def rollout(env: Environment, generator: Generator, sandbox: Sandbox, jobs: Sequence[Job], temperature: float,
            progress: Callable[[int], None] = lambda finished: None, at_once: int | None = None,
            deadline_s: float | None = None, patience_s: float = 1.0) -> RolloutResult:
    """Run every job to its end. `progress` is told how many episodes have just finished.

    At most `at_once` episodes are under way (None: all); one that takes longer than `deadline_s` ends with stop
    `deadline`, and counts as a failure of ours.
    """
    running = _Rollout(env, generator, sandbox, jobs, temperature, progress, at_once or len(jobs), deadline_s,
                       patience_s)
    try:
        return running.run()
    finally:
        running.close()


class _Rollout:
    """A rollout under way. A trajectory, named by the place of its job, is with the generator or with the database."""

    def __init__(self, env: Environment, generator: Generator, sandbox: Sandbox, jobs: Sequence[Job],
                 temperature: float, progress: Callable[[int], None], at_once: int, deadline_s: float | None,
                 patience_s: float) -> None:
        self.env, self.generator, self.sandbox, self.jobs, self.temperature = env, generator, sandbox, jobs, temperature
        self.progress, self.at_once, self.deadline_s = progress, at_once, deadline_s
        self.patience_s = patience_s if generator.stepwise else 0.0
        self.episodes: list[Episode] = []
        self.deadlines: dict[int, float] = {}  # of the trajectories under way
        self.sampled: set[int] = set()  # trajectories that the generator has
        self.queries: dict[int, Query] = {}  # trajectories that wait for the database
        self.slow: set[Path] = set()  # databases that somebody waited for in vain
        self.seconds = {"generate": 0.0, "sql_wait": 0.0, "sql": 0.0}

    def run(self) -> RolloutResult:
        self.start()
        while self.sampled or self.queries:
            generations = self.poll()
            self.await_answers()
            for index in sorted(index for index, query in self.queries.items() if query.outcome.done()):
                self.observe(index, self.queries.pop(index).outcome.result())
            for index, generation in sorted(generations, key=lambda found: found[0]):
                self.act(index, generation)
            self.expire()
            self.start()
        return RolloutResult([episode.trajectory for episode in self.episodes], self.seconds["generate"],
                             self.seconds["sql_wait"], self.seconds["sql"])

    def start(self) -> None:
        """Begin episodes while there is room."""
        while len(self.episodes) < len(self.jobs) and len(self.deadlines) < self.at_once:
            index = len(self.episodes)
            self.episodes.append(self.env.start(list(self.jobs[index].prompt_ids)))
            self.deadlines[index] = math.inf if self.deadline_s is None else time.monotonic() + self.deadline_s
            self.request(index)

    def poll(self) -> list[tuple[int, Generation]]:
        if not self.sampled:
            return []
        with self.clock("generate"):
            return self.generator.poll(block=not self.queries and self.deadline_s is None)

    def request(self, index: int) -> None:
        """Ask for the next action of a trajectory."""
        job, trajectory = self.jobs[index], self.episodes[index].trajectory
        stream = None if job.stream is None else (*job.stream, len(trajectory.turns))
        request = Request(trajectory.token_ids, stream, len(job.prompt_ids), session=index)
        self.generator.submit(index, request, self.env.config.max_new_tokens, self.temperature)
        self.sampled.add(index)

    def act(self, index: int, generation: Generation) -> None:
        """Take a sampled action; its SQL, if it has any, goes to the database."""
        self.sampled.remove(index)
        sql = self.episodes[index].act(generation.ids, generation.logprobs)
        if sql is None:
            self.observe(index, None)
        else:
            self.queries[index] = self.sandbox.submit(self.jobs[index].example.db_path, sql)

    def observe(self, index: int, outcome: Outcome | None) -> None:
        """Take the answer to the last action, and go on."""
        self.seconds["sql"] += 0.0 if outcome is None else outcome.ms / 1000
        self.episodes[index].observe(outcome)
        if self.episodes[index].done:
            self.finish(index)
        else:
            self.request(index)

    def await_answers(self) -> None:
        """Wait for the answers that are due, all that were asked for; for one if there is nothing else to do."""
        due = {query.outcome: path for index, query in self.queries.items()
               if (path := self.jobs[index].example.db_path) not in self.slow}
        with self.clock("sql_wait"):
            self.slow |= {due[outcome] for outcome in self.pending_after(self.patience_s, due)}
            if self.queries and not self.sampled:
                self.pending_after(math.inf, [query.outcome for query in self.queries.values()], FIRST_COMPLETED)

    def pending_after(self, seconds: float, outcomes: Iterable[Future[Outcome]], until: str = ALL_COMPLETED
                      ) -> set[Future[Outcome]]:
        """Outcomes that are not there after so many seconds, or when the next trajectory's time is over."""
        seconds = min(seconds, min(self.deadlines.values()) - time.monotonic())
        return wait(outcomes, None if seconds == math.inf else max(0.0, seconds), until).not_done

    def expire(self) -> None:
        """End the trajectories whose time is over."""
        if self.deadline_s is None:
            return
        now = time.monotonic()
        for index in [index for index, deadline in self.deadlines.items() if deadline < now]:
            late = Outcome(Status.INFRASTRUCTURE, error=f"the trajectory took more than {self.deadline_s:g} s")
            self.episodes[index].expire(late if index in self.queries else None)
            self.finish(index)

    def finish(self, index: int) -> None:
        """A trajectory is over; what still runs for it is taken back."""
        del self.deadlines[index]
        if index in self.sampled:
            self.sampled.remove(index)
            self.generator.cancel(index)
        if index in self.queries:
            self.queries.pop(index).cancel()
        self.generator.release(index)
        self.progress(1)

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        for index in list(self.deadlines):
            self.finish(index)

    @contextmanager
    def clock(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start
