"""The processes that share a run: which one this is, and the few things that they tell each other.

A launcher (`serl.launch`, torchrun, DeepSpeed's) starts the same command once a rank and says by RANK, WORLD_SIZE,
LOCAL_RANK, MASTER_ADDR and MASTER_PORT who is who. Without these there is one process, and everything here is at once
and local.

Every method of `Ranks` that moves something is a collective: all ranks must call it, in the same order, or none goes
on. So whether it is called may depend on what all ranks know, never on what only one of them has. One that waits longer
than its time-out raises WorkFailed, instead of waiting for ever for a rank that is gone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from serl.errors import InputError, WorkFailed, first_line

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

# Where Open MPI and Slurm say what RANK, WORLD_SIZE and LOCAL_RANK are; `serl.launch` says that it was one of them.
LAUNCHED_BY = "SERL_LAUNCHER"
NAMES = {"openmpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
         "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")}
USUAL = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
TOLD = re.compile(r"RANK|WORLD_SIZE|(LOCAL|GROUP|ROLE)_(RANK|WORLD_SIZE|NAME)|MASTER_(ADDR|PORT)|TORCHELASTIC_\w+")


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
        return self._number(value, "SUM")

    def most(self, value: float) -> float:
        """The largest over ranks."""
        return self._number(value, "MAX")

    def wait(self) -> None:
        """Go on when every rank has come here."""
        self.sum(0.0)

    def reduce(self, tensor: torch.Tensor, how: str = "SUM") -> None:
        """Put the sum over ranks (MAX: the largest values) in place of a tensor, bit for bit the same on each."""
        if self.size == 1:
            return
        import torch.distributed as dist

        with self._together():
            dist.all_reduce(tensor, getattr(dist.ReduceOp, how))

    def gather(self, own: T) -> list[T]:
        """What every rank brings, in the order of ranks, on every rank. It is pickled."""
        if self.size == 1:
            return [own]
        import torch.distributed as dist

        everyone: list = [None] * self.size
        with self._together():
            dist.all_gather_object(everyone, own)
        return everyone

    def to_first(self, own: T) -> list[T] | None:
        """What every rank brings, in the order of ranks, on rank 0 alone; None on the others. It is pickled."""
        if self.size == 1:
            return [own]
        import torch.distributed as dist

        everyone: list | None = [None] * self.size if self.leads else None
        with self._together():
            dist.gather_object(own, everyone, dst=0)
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
        with self._together():
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def first(self, work: Callable[[], T]) -> T:
        """What `work` makes on rank 0, which alone does it, on every rank."""
        return self.from_first(work() if self.leads else None)

    def _number(self, value: float, how: str) -> float:
        if self.size == 1:
            return float(value)
        import torch

        box = torch.tensor(float(value), dtype=torch.float64)
        self.reduce(box, how)
        return box.item()

    @contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # all that torch says of a lost peer or of a time-out
            raise WorkFailed(f"rank {self.rank} of {self.size}: another rank has ended, or took longer than "
                             f"engine.timeout_s ({first_line(error)})") from error


ALONE = Ranks()


def ranks_of(environment: Mapping[str, str]) -> Ranks:
    """The rank that an environment tells of; InputError if it tells half of it."""
    names = NAMES.get(environment.get(LAUNCHED_BY, ""), USUAL)
    if not environment.keys() & {*names[:2]}:
        return ALONE
    told = " ".join(f"{name}={environment.get(name, '')}" for name in names)
    try:
        ranks = Ranks(*(int(environment[name]) for name in names))
    except (KeyError, ValueError):
        ranks = None
    if ranks is None or not 0 <= ranks.rank < ranks.size or not 0 <= ranks.local < ranks.size:
        raise InputError(f"a launcher should have set {names[0]} below {names[1]}, and {names[2]}, to numbers; this "
                         f"process has {told}; unset them to run one process")
    return ranks


def alone(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what a launcher tells a rank: for processes that are no ranks of this run."""
    return {name: value for name, value in environment.items() if name != LAUNCHED_BY and not TOLD.fullmatch(name)}


@contextmanager
def open_ranks(timeout_s: float) -> Iterator[Ranks]:
    """The ranks that a launcher's environment tells of (`ranks_of`), connected.

    Tensors on a CPU go by gloo, those on a GPU by NCCL. A collective that takes longer than `timeout_s` raises.
    """
    ranks = ranks_of(os.environ)
    if ranks.size == 1:
        yield ranks
        return
    import torch
    import torch.distributed as dist

    backend = "gloo"
    if torch.cuda.is_available():
        if ranks.local >= torch.cuda.device_count():
            raise InputError(f"rank {ranks.rank}: this machine has {torch.cuda.device_count()} GPUs for "
                             f"{ranks.local + 1} ranks or more; start one a GPU")
        torch.cuda.set_device(ranks.local)
        backend = "cpu:gloo,cuda:nccl"
    try:
        dist.init_process_group(backend, rank=ranks.rank, world_size=ranks.size, timeout=timedelta(seconds=timeout_s))
    except ValueError as error:  # where rank 0 is, is not said, or no address
        raise InputError(f"rank {ranks.rank} of {ranks.size}: a launcher should have set MASTER_ADDR and MASTER_PORT, "
                         f"where rank 0 is ({error})") from error
    except RuntimeError as error:
        raise WorkFailed(f"rank {ranks.rank} of {ranks.size}: the others were not found in engine.timeout_s "
                         f"({first_line(error)}); see that all are started, and reach MASTER_ADDR and MASTER_PORT"
                         ) from error
    try:
        yield ranks
    finally:
        dist.destroy_process_group()
