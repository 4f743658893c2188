"""One question at a time: prompt, N samples, the answer."""

import time
from dataclasses import dataclass

from serl.agent.dialects import Kind
from serl.agent.rollout import Job, Rollout
from serl.agent.trajectory import Trajectory
from serl.ask.answer import Answer, Sample, keep_rows
from serl.ask.question import Asked, Prompter, Ready
from serl.workbench import Workbench

ASK_STREAM = 2  # first entry of every random stream here; training uses 0, evaluations use 1


@dataclass(frozen=True)
class Sampling:
    """How questions are answered. One sample alone is the greedy answer; several are drawn at `temperature`."""

    n: int = 1
    temperature: float = 1.0
    select: str = "vote"  # of serl.select, but for those that need gold
    rows: int = 20  # kept of each result

    def jobs(self, ready: Ready, drawn: bool, seed: int = 0) -> list[Job]:
        """The trajectories to sample: drawn, or else greedy."""
        return [Job(ready.example, ready.prompt_ids, (ASK_STREAM, seed, place) if drawn else None)
                for place in range(self.n)]


class Listener:
    """Is told what happens while a question is answered; this one does not care."""

    def turn(self, place: int, trajectory: Trajectory, answered: bool) -> None:
        """The last action of a sample was sampled, or has its answer."""

    def ended(self, place: int, sample: Sample) -> None:
        """A sample is complete."""


def turn_kept(trajectory: Trajectory, answered: bool, rows: int) -> None:
    """Keep what is needed of the result of a turn: of a solution's all of it, since that is voted with."""
    turn = trajectory.turns[-1]
    if answered and turn.parsed.kind is not Kind.FINAL:
        keep_rows(turn, rows)


class Asker:
    """A workbench that answers questions, one after the other."""

    def __init__(self, bench: Workbench, sampling: Sampling) -> None:
        self.bench, self.sampling = bench, sampling
        self.prompter = Prompter(bench.env, bench.preparer.grounder, bench.config.grounding)
        bench.preparer.grounder.progress = True  # the first question about a large database builds its index
        self.generator = bench.generator(sampling.n)

    def answer(self, asked: Asked, listener: Listener) -> Answer:
        """InputError where it cannot be asked: see `Prompter.prepare`."""
        ready, sampling = self.prompter.prepare(asked), self.sampling
        start = time.perf_counter()
        ended: dict[int, Sample] = {}

        def tell(index: int, trajectory: Trajectory, answered: bool) -> None:
            listener.turn(index, trajectory, answered)
            turn_kept(trajectory, answered, sampling.rows)

        running = Rollout(self.bench.env, self.generator, self.bench.sandbox, tell=tell)
        try:
            for job in sampling.jobs(ready, drawn=sampling.n > 1):
                running.begin(job, sampling.temperature)
            while running:
                for index, trajectory in running.step():
                    ended[index] = Sample.of(trajectory, sampling.rows)
                    listener.ended(index, ended[index])
        finally:
            running.close()
        samples = [ended[index] for index in range(sampling.n)]
        return Answer.of(ready, samples, sampling.select, time.perf_counter() - start)
