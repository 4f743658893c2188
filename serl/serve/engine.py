"""Many questions at a time, each from `submit` to its Answer:

    submit ─▶ preparing thread: grounding, prompt ─▶ sampling thread: the trajectories of all questions in one rollout
       │                                                  a question joins while others are being decoded
       └─ Full, if as many questions are here as may be

Nothing of one question is seen by another: they share the model's passes and the workers of the sandbox, no state. Each
has a deadline; what it has sampled until then is chosen from. A question that is cancelled gives back what it holds at
the next token. The tokenizer of the one thread is not that of the other, since it keeps settings between calls.
"""

import copy
import queue
import sys
import threading
import time
import traceback
from concurrent.futures import Future
from dataclasses import dataclass, field

from serl.agent.env import Environment
from serl.agent.rollout import Rollout
from serl.agent.trajectory import Trajectory
from serl.ask.answer import Answer, Sample
from serl.ask.asker import Listener, Sampling, turn_kept
from serl.ask.question import Asked, Prompter, Ready
from serl.errors import InputError, WorkFailed
from serl.serve.fair import FairSandbox
from serl.workbench import Workbench

PATIENCE_S = 0.02  # that sampling waits for databases, if there is nothing else to do, before it looks for questions
_FAILED = "the server could not answer; its log says why"


class Full(Exception):
    """There is no room for another question now."""


@dataclass(eq=False)
class Ticket:
    """One question on its way. `answer` has what comes of it one day; `ready` is done once it has its prompt."""

    asked: Asked
    drawn: bool  # or greedy
    temperature: float
    seed: int
    deadline: float  # of time.monotonic()
    listener: Listener
    ready: Future[Ready] = field(default_factory=Future)
    answer: Future[Answer] = field(default_factory=Future)
    samples: dict[int, Sample] = field(default_factory=dict)
    begun: float = 0.0
    cancelled: bool = False

    def __post_init__(self) -> None:
        for future in (self.ready, self.answer):  # whoever waits for them and gives up leaves them alone
            future.set_running_or_notify_cancel()

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.cancelled or time.monotonic() > self.deadline

    def cancel(self) -> None:
        """Nobody wants the answer; of no effect if it is there."""
        self.cancelled = True

    def fail(self, error: BaseException) -> None:
        """There will be no answer; its place is free by the time that anybody hears of it."""
        for future in (self.answer, self.ready):
            if not future.done():
                future.set_exception(error)


class Engine:
    """Close it, or use `with`. `at_once` questions are sampled at a time, and `waiting` more may be here."""

    def __init__(self, bench: Workbench, sampling: Sampling, at_once: int, waiting: int, timeout_s: float) -> None:
        self.bench, self.sampling, self.at_once, self.timeout_s = bench, sampling, at_once, timeout_s
        self.room = at_once + waiting  # questions that may be here
        self._env = Environment.build(copy.deepcopy(bench.tokenizer), bench.config.agent, bench.config.model.max_length)
        self._prompter = Prompter(bench.env, bench.preparer.grounder, bench.config.grounding)
        self._sandbox = FairSandbox(bench.sandbox, max(1, bench.sandbox.workers // 2))
        self._generator = bench.generator(at_once * sampling.n)
        self._tickets: set[Ticket] = set()
        self._lock = threading.Lock()
        self._closing = False
        self._to_prepare: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._to_sample: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._places: dict[int, tuple[Ticket, int]] = {}  # of trajectories under way, by their number
        self._running = self._rollout()
        self._threads = [threading.Thread(target=work, name=f"serl-{work.__name__}", daemon=True)
                         for work in (self._prepare, self._sample)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Questions that are here."""
        return len(self._tickets)

    def submit(self, asked: Asked, listener: Listener, drawn: bool | None = None, temperature: float | None = None,
               seed: int = 0) -> Ticket:
        """Take a question in, or raise Full. None: drawn if there are several samples, at the usual temperature."""
        ticket = Ticket(asked, self.sampling.n > 1 if drawn is None else drawn,
                        self.sampling.temperature if temperature is None else temperature, seed,
                        time.monotonic() + self.timeout_s, listener)
        with self._lock:
            if self._closing:
                raise WorkFailed("the server is shutting down")
            if len(self._tickets) >= self.room:
                raise Full
            self._tickets.add(ticket)
        ticket.answer.add_done_callback(lambda _: self._tickets.discard(ticket))
        self._to_prepare.put(ticket)
        return ticket

    def close(self) -> None:
        """Drop what is under way and end the threads."""
        with self._lock:
            self._closing = True
        self._to_prepare.put(None)
        self._to_sample.put(None)
        for thread in self._threads:
            thread.join()
        self._running.close()
        for ticket in list(self._tickets):
            ticket.fail(WorkFailed("the server is shutting down"))

    def _prepare(self) -> None:
        while (ticket := self._to_prepare.get()) is not None and not self._closing:
            if ticket.is_over:
                ticket.fail(TimeoutError())
                continue
            try:
                ticket.ready.set_result(self._prompter.prepare(ticket.asked))
                self._to_sample.put(ticket)
            except InputError as error:
                ticket.fail(error)
            except Exception as error:  # whatever it is, the next question may be well
                ticket.fail(_told(error))

    def _sample(self) -> None:
        while not self._closing:
            try:
                self._admit()
                self._drop()
                for index, trajectory in self._running.step(PATIENCE_S):
                    self._end(index, trajectory)
            except Exception as error:  # whatever it is, the next questions may be well
                self._begin_anew(_told(error))

    def _begin_anew(self, failure: WorkFailed) -> None:
        """Fail what is under way, and forget it."""
        failed, broken = {ticket for ticket, _ in self._places.values()}, self._running
        self._places.clear()
        self._running = self._rollout()
        self._running.begun = broken.begun  # no number names two sessions, whatever the generator still holds
        for ticket in failed:
            ticket.fail(failure)
        try:
            broken.close()
        except Exception as error:  # what has failed may not be able to clean up either
            _told(error)

    def _rollout(self) -> Rollout:
        return Rollout(self._env, self._generator, self._sandbox, patience_s=0.0, tell=self._tell)

    def _admit(self) -> None:
        """Begin questions while there is room; wait for one if there is nothing to do."""
        while len(self._running) + self.sampling.n <= self.at_once * self.sampling.n:
            try:
                ticket = self._to_sample.get(block=not self._places)
            except queue.Empty:
                return
            if ticket is None:
                return
            if ticket.is_over:
                ticket.fail(TimeoutError())
                continue
            self._begin(ticket)

    def _begin(self, ticket: Ticket) -> None:
        ticket.begun = time.monotonic()
        try:
            for place, job in enumerate(self.sampling.jobs(ticket.ready.result(), ticket.drawn, ticket.seed)):
                index = self._running.begin(job, ticket.temperature, ticket.deadline - ticket.begun)
                self._places[index] = ticket, place
        except Exception:
            ticket.fail(WorkFailed(_FAILED))
            raise

    def _drop(self) -> None:
        """Take back what runs for nobody."""
        for index, (ticket, _) in list(self._places.items()):
            if ticket.cancelled:
                self._running.cancel(index)
                del self._places[index]
                ticket.fail(TimeoutError())

    def _tell(self, index: int, trajectory: Trajectory, answered: bool) -> None:
        ticket, place = self._places[index]
        ticket.listener.turn(place, trajectory, answered)
        turn_kept(trajectory, answered, self.sampling.rows)

    def _end(self, index: int, trajectory: Trajectory) -> None:
        ticket, place = self._places.pop(index)
        ticket.samples[place] = sample = Sample.of(trajectory, self.sampling.rows)
        ticket.listener.ended(place, sample)
        if len(ticket.samples) == self.sampling.n and not ticket.answer.done():
            samples = [ticket.samples[place] for place in range(self.sampling.n)]
            ticket.answer.set_result(Answer.of(ticket.ready.result(), samples, self.sampling.select,
                                               time.monotonic() - ticket.begun))


def _told(error: Exception) -> WorkFailed:
    """A failure of ours, told to the operator; the client learns only that there was one."""
    traceback.print_exception(error, file=sys.stderr)
    return WorkFailed(_FAILED)
