"""Rollouts: many episodes at once, generation and SQL in turns.

Each round samples one action for every running episode, runs their SQL in parallel in the sandbox, and
appends the answers. The order of the jobs does not influence any of them (see `serl.generate.hf`).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from serl.agent.env import Environment
from serl.agent.trajectory import Trajectory
from serl.data.example import Example
from serl.generate.interface import Generator, Request
from serl.sql.sandbox import Sandbox


@dataclass(frozen=True)
class Job:
    """One trajectory to sample: its question, prompt tokens and random stream (None: greedy)."""

    example: Example
    prompt_ids: tuple[int, ...]
    stream: tuple[int, ...] | None


@dataclass(frozen=True)
class RolloutResult:
    """Trajectories in the order of the jobs, and where the wall-clock time went, in seconds."""

    trajectories: list[Trajectory]
    generate_seconds: float
    sql_seconds: float


def rollout(env: Environment, generator: Generator, sandbox: Sandbox, jobs: Sequence[Job], temperature: float,
            progress: Callable[[int], None] = lambda finished: None) -> RolloutResult:
    """Run every job to its end. `progress` is told how many episodes have just finished."""
    episodes = [env.start(list(job.prompt_ids)) for job in jobs]
    running = list(range(len(jobs)))
    generate_seconds = sql_seconds = 0.0
    while running:
        requests = []
        for index in running:
            stream, turn = jobs[index].stream, len(episodes[index].trajectory.turns)
            requests.append(Request(episodes[index].trajectory.token_ids,
                                    None if stream is None else (*stream, turn), len(jobs[index].prompt_ids)))
        start = time.perf_counter()
        generations = generator.generate(requests, env.config.max_new_tokens, temperature)
        generate_seconds += time.perf_counter() - start

        queries = [(index, episodes[index].act(generation.ids, generation.logprobs))
                   for index, generation in zip(running, generations)]
        start = time.perf_counter()
        asked = [(index, sql) for index, sql in queries if sql is not None]
        outcomes = dict(zip((index for index, _ in asked),
                            sandbox.run_many([(jobs[index].example.db_path, sql) for index, sql in asked])))
        sql_seconds += time.perf_counter() - start
        for index in running:
            episodes[index].observe(outcomes.get(index))
        still = [index for index in running if not episodes[index].done]
        progress(len(running) - len(still))
        running = still
    return RolloutResult([episode.trajectory for episode in episodes], generate_seconds, sql_seconds)
