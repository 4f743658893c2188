"""Processes, two of them if not said otherwise, connected by gloo, that work one case after another."""

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context

from serl.parallel import Ranks, open_ranks

_here: list[Ranks] = []
_open = ExitStack()  # for the life of the process


@contextmanager
def opened(timeout_s: float, size: int = 2) -> Iterator[Callable[..., list]]:
    """A function that runs `work(ranks, *arguments)` in all; it returns what they return, in the order of ranks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ["DS_ACCELERATOR"] = "cpu"  # read when DeepSpeed is imported
    with ExitStack() as stack:
        context = get_context("forkserver")
        context.set_forkserver_preload(["deepspeed", "peft", "transformers.models.qwen3.modeling_qwen3"])
        pools = [stack.enter_context(ProcessPoolExecutor(1, context, _connect, (rank, size, port, timeout_s)))
                 for rank in range(size)]

        def run(work: Callable, *arguments) -> list:
            return [task.result(600) for task in [pool.submit(_call, work, arguments) for pool in pools]]

        yield run


def _connect(rank: int, size: int, port: int, timeout_s: float) -> None:
    import torch

    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(port)}
    _here.append(_open.enter_context(open_ranks(timeout_s)))


def _call(work: Callable, arguments: tuple):
    return work(*_here, *arguments)
