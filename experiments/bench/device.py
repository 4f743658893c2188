"""What a benchmark asks of the device that it runs on: a GPU's memory, and work that may be too much for it."""

import gc
from collections.abc import Callable
from typing import Any


def guarded(work: Callable[[], Any]) -> Any:
    """What `work` gives, or that there was no memory for it."""
    import torch

    try:
        return work()
    except torch.OutOfMemoryError:
        pass  # as long as it is handled, it holds what was there
    clear()
    return {"failed": "out of memory"}


def clear() -> None:
    """Give memory back that nobody holds."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def reset_peak(device: str) -> int:
    """Begin to measure; bytes that are allocated now (0 on a CPU, where nobody counts)."""
    import torch

    if device != "cuda":
        return 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def peak(device: str) -> int:
    """Most bytes since then, with all work done."""
    import torch

    if device != "cuda":
        return 0
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()
