"""Rollouts: many episodes at once, and no barrier between their turns.

    rollout(...)    every job of a list to its end
    Rollout(...)    trajectories that begin at any time, as questions come in

While the generator decodes, the sandbox runs the SQL of other trajectories; an observation that is ready goes back in
as the next request. Trajectory i draws from its own random streams, so who ends first does not influence any of them.

What batches are made of does change the last bits of float sums (see `serl.generate.hf`). So that a run repeats bit for
bit all the same, an answer is due one poll of a stepwise generator after it was asked for, and waited for if it is not
there: the order of events does not depend on how fast the machine is. A query that is still not done after `patience_s`
is not waited for, nor is that database again: its trajectory comes back when it does.

A turn of a dialogue that remembers the policy's own answers begins when the job that it waits for is over; other
dialogues go on meanwhile.
"""

import heapq
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from serl.agent.env import Environment, Episode
from serl.agent.memory import Memory
from serl.agent.past import Past
from serl.agent.trajectory import Trajectory
from serl.data.example import Example
from serl.generate.interface import Generation, Generator, Request
from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Query, Sandbox

Stream = tuple[int, ...] | None
"""What a trajectory draws its random numbers by; None: it is greedy."""


@dataclass(frozen=True)
class Job:
    """One trajectory to sample: its question, prompt tokens and random stream, and what its dialogue's memory holds."""

    example: Example
    prompt_ids: tuple[int, ...]
    stream: Stream
    past: Past | None = None  # may wait for jobs before this one

    @property
    def waits_for(self) -> int | None:
        """The place of the job that must be over before."""
        return None if self.past is None else self.past.waits_for


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
    running = Rollout(env, generator, sandbox, patience_s)
    ended: dict[int, Trajectory] = {}
    ready = [place for place, job in enumerate(jobs) if job.waits_for is None]  # a heap: the first one is next
    blocked: dict[int, list[int]] = {}  # those that wait, by the job that they wait for
    for place, job in enumerate(jobs):
        if job.waits_for is not None:
            blocked.setdefault(job.waits_for, []).append(place)
    try:
        while len(ended) < len(jobs):
            while ready and len(running) < (at_once or len(jobs)):
                place = heapq.heappop(ready)
                past = jobs[place].past
                running.begin(jobs[place], temperature, deadline_s, place, past and partial(past.memory, ended))
            for place, trajectory in (found := running.step()):
                ended[place] = trajectory
                for waiting in blocked.pop(place, ()):
                    heapq.heappush(ready, waiting)
            if found:
                progress(len(found))
    finally:
        running.close()
    return RolloutResult([ended[index] for index in range(len(jobs))], running.seconds["generate"],
                         running.seconds["sql_wait"], running.seconds["sql"])


def _tell_nobody(index: int, trajectory: Trajectory, answered: bool) -> None:
    pass


class Rollout:
    """Trajectories under way, each with a number of its own; one is with the generator or the database.

    `tell(index, trajectory, answered)` is called when an action was sampled, and again when it has its answer.
    """

    def __init__(self, env: Environment, generator: Generator, sandbox: Sandbox, patience_s: float = 1.0,
                 tell: Callable[[int, Trajectory, bool], None] = _tell_nobody) -> None:
        self.env, self.generator, self.sandbox, self.tell = env, generator, sandbox, tell
        self.patience_s = patience_s if generator.stepwise else 0.0
        self.begun = 0
        self.jobs: dict[int, tuple[Job, float, float | None]] = {}  # with temperature, and seconds until the deadline
        self.episodes: dict[int, Episode] = {}
        self.deadlines: dict[int, float] = {}
        self.sampled: set[int] = set()  # trajectories that the generator has
        self.queries: dict[int, Query] = {}  # trajectories that wait for the database
        self.slow: set[Path] = set()  # databases that somebody waited for in vain
        self.ended: list[tuple[int, Trajectory]] = []
        self.seconds = {"generate": 0.0, "sql_wait": 0.0, "sql": 0.0}

    def __len__(self) -> int:
        """How many are under way."""
        return len(self.episodes)

    def begin(self, job: Job, temperature: float, deadline_s: float | None = None, number: int | None = None,
              memory: Callable[[], Memory] | None = None) -> int:
        """Ask for the first action of a trajectory; its number, which by default is how many were begun before it.

        `memory` gives the memory of its dialogue, when it first looks into it.
        """
        index, self.begun = self.begun if number is None else number, self.begun + 1
        self.jobs[index] = job, temperature, deadline_s
        self.episodes[index] = self.env.start(list(job.prompt_ids), memory)
        self.deadlines[index] = math.inf if deadline_s is None else time.monotonic() + deadline_s
        self.request(index)
        return index

    def step(self, most_s: float = math.inf) -> list[tuple[int, Trajectory]]:
        """Go on with all of them by one poll of the generator; those that have ended since.

        Where all wait for the database, one waits here until it answers, but not longer than `most_s` seconds.
        """
        if not self.episodes:
            return []
        generations = self.poll()
        self.await_answers(most_s)
        for index in sorted(index for index, query in self.queries.items() if query.outcome.done()):
            self.observe(index, self.queries.pop(index).outcome.result())
        for index, generation in sorted(generations, key=lambda found: found[0]):
            self.act(index, generation)
        self.expire()
        ended, self.ended = self.ended, []
        return ended

    def cancel(self, index: int) -> None:
        """Forget a trajectory, and take back what still runs for it; of no effect if it has ended."""
        if index not in self.episodes:
            return
        if index in self.sampled:
            self.sampled.remove(index)
            self.generator.cancel(index)
        if index in self.queries:
            self.queries.pop(index).cancel()
        self.generator.release(index)
        del self.jobs[index], self.episodes[index], self.deadlines[index]

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        for index in list(self.episodes):
            self.cancel(index)

    def poll(self) -> list[tuple[int, Generation]]:
        if not self.sampled:
            return []
        with self.clock("generate"):
            return self.generator.poll(block=not self.queries and min(self.deadlines.values()) == math.inf)

    def request(self, index: int) -> None:
        """Ask for the next action of a trajectory."""
        (job, temperature, _), trajectory = self.jobs[index], self.episodes[index].trajectory
        stream = None if job.stream is None else (*job.stream, len(trajectory.turns))
        request = Request(trajectory.token_ids, stream, len(job.prompt_ids), session=index)
        self.generator.submit(index, request, self.env.config.max_new_tokens, temperature)
        self.sampled.add(index)

    def act(self, index: int, generation: Generation) -> None:
        """Take a sampled action; its SQL, if it has any, goes to the database."""
        self.sampled.remove(index)
        episode = self.episodes[index]
        sql = episode.act(generation.ids, generation.logprobs)
        self.tell(index, episode.trajectory, False)
        if sql is None:
            self.observe(index, None)
        else:
            self.queries[index] = self.sandbox.submit(self.jobs[index][0].example.db_path, sql)

    def observe(self, index: int, outcome: Outcome | None) -> None:
        """Take the answer to the last action, and go on."""
        self.seconds["sql"] += 0.0 if outcome is None else outcome.ms / 1000
        episode = self.episodes[index]
        episode.observe(outcome)
        self.tell(index, episode.trajectory, True)
        if episode.done:
            self.finish(index)
        else:
            self.request(index)

    def await_answers(self, most_s: float) -> None:
        """Wait for the answers that are due, all that were asked for; for one if there is nothing else to do."""
        due = {query.outcome: path for index, query in self.queries.items()
               if (path := self.jobs[index][0].example.db_path) not in self.slow}
        with self.clock("sql_wait"):
            self.slow |= {due[outcome] for outcome in self.pending_after(self.patience_s, due)}
            if self.queries and not self.sampled:
                self.pending_after(most_s, [query.outcome for query in self.queries.values()], FIRST_COMPLETED)

    def pending_after(self, seconds: float, outcomes: Iterable[Future[Outcome]], until: str = ALL_COMPLETED
                      ) -> set[Future[Outcome]]:
        """Outcomes that are not there after so many seconds, or when the next trajectory's time is over."""
        seconds = min(seconds, min(self.deadlines.values()) - time.monotonic())
        return wait(outcomes, None if seconds == math.inf else max(0.0, seconds), until).not_done

    def expire(self) -> None:
        """End the trajectories whose time is over."""
        now = time.monotonic()
        for index in [index for index, deadline in self.deadlines.items() if deadline < now]:
            error = f"the trajectory took more than {self.jobs[index][2]:g} s"
            late = Outcome(Status.INFRASTRUCTURE, error=error)
            self.episodes[index].expire(late if index in self.queries else None)
            self.finish(index)

    def finish(self, index: int) -> None:
        """A trajectory is over; what still runs for it is taken back."""
        self.ended.append((index, self.episodes[index].trajectory))
        self.cancel(index)

    @contextmanager
    def clock(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start
