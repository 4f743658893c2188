"""Ranks that are threads of one process, for tests: what they tell each other is real, and processes cost seconds."""

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from serl.parallel import Ranks


class Meeting:
    """Where all ranks come for every collective, each time for the same one; who is alone there breaks it."""

    def __init__(self, size: int) -> None:
        self.barrier, self.parts = threading.Barrier(size, timeout=120), [None] * size

    def bring(self, rank: int, what: str, own):
        self.parts[rank] = what, pickle.dumps(own)
        self.barrier.wait()
        names, everyone = zip(*self.parts)
        self.barrier.wait()  # nobody brings the next part before all have read
        if len(set(names)) > 1:
            raise AssertionError(f"ranks call different collectives: {names}")
        return [pickle.loads(part) for part in everyone]


@dataclass(frozen=True)
class ThreadRanks(Ranks):
    """One rank of those that share a meeting."""

    meeting: Meeting | None = None

    def reduce(self, tensor: torch.Tensor, how: str = "SUM") -> None:
        parts = self.meeting.bring(self.rank, f"reduce {how} {list(tensor.shape)}", tensor)
        tensor.copy_(sum(parts[1:], parts[0]) if how == "SUM" else torch.stack(parts).amax(0))

    def gather(self, own):
        return self.meeting.bring(self.rank, "gather", own)

    def to_first(self, own):
        everyone = self.meeting.bring(self.rank, "to_first", own)
        return everyone if self.leads else None

    def from_first(self, value):
        return self.meeting.bring(self.rank, "from_first", value if self.leads else None)[0]


def in_threads(size: int, work: Callable[[Ranks], object]) -> list:
    """What `work` returns on each rank; what the first one that failed raised."""
    meeting, errors = Meeting(size), []

    def run(rank: int):
        try:
            return work(ThreadRanks(rank, size, rank, meeting))
        except BaseException as error:
            errors.append(error)
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        tasks = [pool.submit(run, rank) for rank in range(size)]
    if errors:
        raise errors[0]
    return [task.result() for task in tasks]
