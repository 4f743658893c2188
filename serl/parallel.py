"""The processes that share a run: which one this is, and the few things that they tell each other.

A launcher (torchrun, DeepSpeed's) starts the same command once a rank and says by RANK, WORLD_SIZE, LOCAL_RANK,
MASTER_ADDR and MASTER_PORT who is who. Without these there is one process, and everything here is at once and local.

Every method of `Ranks` that moves something is a collective: all ranks must call it, in the same order, or none goes
on. One that waits longer than its time-out raises, instead of waiting for ever for a rank that is gone.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from serl.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """`rank` of `size` processes, the one numbered `local` on its machine."""

    rank: int = 0
    size: int = 1
    local: int = 0

    @property
    def leads(self) -> bool:
        """Whether this rank writes the run folder and talks to people."""
        return self.rank == 0

    def share(self, count: int) -> range:
        """Which of `count` things are this rank's: rank, rank + size, ...; possibly none."""
        return range(self.rank, count, self.size)

    def sum(self, value: float) -> float:
        """The sum over ranks, in float64."""
        return self._reduce(value, "SUM")

    def most(self, value: float) -> float:
        """The largest over ranks."""
        return self._reduce(value, "MAX")

    def gather(self, own: T) -> list[T]:
        """What every rank brings, in the order of ranks, on every rank. It is pickled."""
        if self.size == 1:
            return [own]
        import torch.distributed as dist

        everyone: list = [None] * self.size
        dist.all_gather_object(everyone, own)
        return everyone

    def interleaved(self, own: list[T], count: int) -> list[T]:
        """The `count` things that were shared by `share`, in their order, on every rank."""
        parts = [iter(part) for part in self.gather(own)]
        return [next(parts[place % self.size]) for place in range(count)]

    def from_first(self, value: T) -> T:
        """What rank 0 brings, on every rank."""
        if self.size == 1:
            return value
        import torch.distributed as dist

        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def _reduce(self, value: float, how: str) -> float:
        if self.size == 1:
            return float(value)
        import torch
        import torch.distributed as dist

        box = torch.tensor(float(value), dtype=torch.float64)
        dist.all_reduce(box, getattr(dist.ReduceOp, how))
        return box.item()


ALONE = Ranks()


@contextmanager
def open_ranks(timeout_s: float) -> Iterator[Ranks]:
    """The ranks that a launcher's environment tells of; InputError if it tells half of it.

    Tensors on a CPU go by gloo, those on a GPU by NCCL. A collective that takes longer than `timeout_s` raises.
    """
    if "WORLD_SIZE" not in os.environ:
        yield ALONE
        return
    try:
        ranks = Ranks(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))
    except (KeyError, ValueError) as error:
        raise InputError(f"WORLD_SIZE is set, so a launcher should have set RANK and LOCAL_RANK to numbers ({error}); "
                         "unset WORLD_SIZE to run one process") from error
    if ranks.size == 1:
        yield ranks
        return
    import torch
    import torch.distributed as dist

    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(ranks.local)
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))
    try:
        yield ranks
    finally:
        dist.destroy_process_group()
