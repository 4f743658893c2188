"""What the teacher costs beside its time: the bytes of its own weights, and the most memory its pass took.

The latter on a GPU only. A process on CPUs keeps what it has freed: its peak resident memory within a pass (VmHWM,
reset through /proc/self/clear_refs) is what the update before has left. Measured so, a pass that needs 37 MiB peaks at
the 568 that it begins with. Nor is that a function of the seed, as a run's metrics are but for times.
`experiments/bench/step.py` measures each way in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from serl.partition import own_part


def own_bytes(teacher: torch.nn.Module, student: torch.nn.Module) -> int:
    """Bytes of the teacher's parameters and buffers that are not the student's too: 0 for a live teacher."""
    shared = {tensor.data_ptr() for tensor in _tensors(student)}
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(teacher)
               if tensor.data_ptr() not in shared)


@contextmanager
def peak_memory(model: torch.nn.Module, metrics: dict[str, float], name: str) -> Iterator[None]:
    """Put into `metrics[name]` the most bytes that were allocated on the model's GPU within the block.

    On the CPU nothing is put in.
    """
    device = next(model.parameters()).device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    yield
    if device.type == "cuda":
        metrics[name] = float(torch.cuda.max_memory_allocated(device))


def _tensors(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    yield from map(own_part, model.parameters())
    yield from model.buffers()
