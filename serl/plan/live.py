"""The bytes that are alive while code runs on tensors without data: a step's memory, found without the memory.

PyTorch's fake tensors have shapes, types and devices, and operators on them compute no numbers. `Live` watches every
operator and adds up the storages that it makes, and takes them away when nobody holds them any longer. What it leaves
out: memory that a kernel borrows while it runs, and gaps that an allocator leaves.

A CPU is played by fake CPU tensors, a GPU by those of PyTorch's device "meta", for which there are operators in every
build: code that asks for the device goes the way that it goes on a GPU. There, attention is taken to be fused: it keeps
queries, keys, values, outputs and their log-sum-exps (FlashAttention, arXiv 2205.14135), never the scores. A mask of
booleans becomes one of numbers, in each layer anew, before any kernel is called, and is kept as that.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

STAND_IN = {"cpu": "cpu", "cuda": "meta"}


class Live(TorchDispatchMode):
    """Counts storages that operators make: `now` alive, and the `peak` since it was taken.

    What was there before, such as weights, is not counted, nor are views of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self._hold((args, kwargs), counts=False)
        out = func(*args, **(kwargs or {}))
        self._hold(out, counts=True)
        return out

    def take_peak(self) -> int:
        """The peak so far; from now on, another one."""
        peak, self.peak = self.peak, self.now
        return peak

    def _hold(self, tree, counts: bool) -> None:
        for leaf in tree_leaves(tree):
            if not isinstance(leaf, torch.Tensor):
                continue
            storage = leaf.untyped_storage()
            key, size = storage._cdata, storage.nbytes() if counts else 0
            if key not in self._known:
                self._known.add(key)
                self.now += size
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._release, key, size)

    def _release(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


class _Fused(torch.autograd.Function):
    """What a fused kernel of attention keeps and returns."""

    @staticmethod
    def forward(ctx, query_BHQD, key_BKSD, value_BKSD, mask):
        out_BHQD = torch.empty_like(query_BHQD.transpose(1, 2)).transpose(1, 2)  # laid out [B, Q, H, D]
        lse_BHQ = query_BHQD.new_empty(query_BHQD.shape[:3], dtype=torch.float32)
        if mask is not None:
            mask = mask.to(query_BHQD.dtype)
        ctx.save_for_backward(query_BHQD, key_BKSD, value_BKSD, mask, out_BHQD, lse_BHQ)
        return out_BHQD

    @staticmethod
    def backward(ctx, grad):
        query, key, value, *_ = ctx.saved_tensors
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), None


@contextmanager
def _fused_attention() -> Iterator[None]:
    """Attention by `_Fused`, wherever tensors are not a CPU's.

    The function is replaced, since modes for functions are off in a backward pass, where layers may run again.
    """
    own = functional.scaled_dot_product_attention

    def attend(query, key, value, attn_mask=None, *args, **options):
        if query.device.type == "cpu":
            return own(query, key, value, attn_mask, *args, **options)
        return _Fused.apply(query, key, value, attn_mask)

    functional.scaled_dot_product_attention = attend
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = own


@contextmanager
def without_data(device: str) -> Iterator[torch.device]:
    """Tensors that are made here have no data; on `device` cpu or cuda, by its stand-in, which is given."""
    with FakeTensorMode(allow_non_fake_inputs=True), _fused_attention():
        yield torch.device(STAND_IN[device])
