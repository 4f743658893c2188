"""What a micro-batch keeps for its backward pass: by hand for one shape, and as torch really keeps it."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM

from serl import lora
from serl.config import Config, LoraConfig
from serl.plan.known import gpu
from serl.plan.live import Live, without_data
from serl.plan.made_up import branches, trajectories
from serl.plan.micro import Work, micro_batch, run
from serl.plan.parameters import with_layers
from serl.plan.setting import Asked, setting_of
from serl.recompute import recompute_layers
from serl.train.scoring import logprobs, logprobs_with_branches
from tests.models import tiny_model

P, R, N, L = 96, 8, 4, 2  # prompt, response, group, layers
D, Q, K, F, V, H = 32, 4 * 8, 2 * 8, 48, 64, 4  # widths of hidden states, queries, keys, MLP; vocabulary; heads


def setting(**fields):
    asked = Asked(1, gpu("H100"), prompt=P, response=R)
    base = {"sampled": R, "group": N, "questions": 1, "turns": 1, "teacher": "none"}
    return replace(setting_of(Config(), asked), **base | fields)


def test_bytes_that_are_alive():
    with without_data("cuda") as device, Live() as live:
        one = torch.ones(10, device=device)
        two = one[2:] + 1.0  # a view has no bytes of its own
        assert live.now == 40 + 32
        del one
        assert live.now == 32 and live.peak == 72 and live.take_peak() == 72 and live.peak == 32
        del two
    assert live.now == 0


@pytest.mark.parametrize("dtype, bytes_each", [("float32", 4), ("bfloat16", 2)])
def test_activations_by_hand(dtype, bytes_each):
    """Of each token and layer, one sequence at a time.

        2 norms of D      the input in float32, normed, weighted: (4 + 2 w) D each; and a float32 number
        norms of q, k     the input in float32, normed: (4 + w) (Q + K); and a float32 number a head
        attention         q, k, v, with keys and values repeated for their heads, as where there is a mask, and the
                          output: 4 w Q; a log-sum-exp a head; a row of the mask, as numbers: w (P + R)
        MLP               gate, its SiLU, up, their product: 4 w F
    """
    w = bytes_each
    layer = 2 * ((4 + 2 * w) * D + 4) + (4 + w) * (Q + K) + 4 * (H + H // 2) + 4 * w * Q + 4 * H + 4 * w * F
    layer += w * (P + R)
    found = micro_batch(tiny_model(V).config, setting(shared=False, dtype=dtype, micro_tokens=P + R))
    assert (found.trajectories, found.tokens, found.count) == (1, P + R, N)
    fewer = micro_batch(with_layers(tiny_model(V).config, 1), setting(shared=False, dtype=dtype,
                                                                         micro_tokens=P + R))
    assert (found.kept - fewer.kept) / (P + R) == layer


class Box:
    """A tensor that autograd holds."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def test_what_torch_keeps_on_a_cpu():
    """The same graph with data: bytes of all storages that autograd holds in the end, but for the parameters'."""
    model = tiny_model(V)
    boxes: weakref.WeakSet[Box] = weakref.WeakSet()

    def pack(tensor: torch.Tensor) -> Box:
        box = Box(tensor.detach())  # with its history, the graph would hold itself
        boxes.add(box)
        return box

    tails = trajectories(P, R, R, N, 1, V)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: box.tensor):
        found = logprobs(model, tails, 1.0, True)
    gc.collect()  # what a forward pass returned and nobody wanted may wait for it
    storages = {box.tensor.untyped_storage().data_ptr(): box.tensor.untyped_storage().nbytes() for box in boxes}
    for weight in model.parameters():
        storages.pop(weight.untyped_storage().data_ptr(), None)
    planned = micro_batch(model.config, setting(shared=True, device="cpu"))
    assert planned.kept == pytest.approx(sum(storages.values()), rel=0.05)
    assert len(found) == planned.trajectories == N and planned.tokens == P - 1 + N * (R + 1)


WAYS = [{"shared": True}, {"shared": False}, {"shared": True, "checkpointing": True}, {"shared": True, "rank": 2},
        {"shared": True, "teacher": "live", "hindsight": 10, "turns": 2}]


@pytest.mark.slow
@pytest.mark.parametrize("fields", [*WAYS, {"shared": True, "device": "cuda"}])
def test_few_layers_tell_those_of_many(fields):
    config, own = with_layers(tiny_model(V).config, 5), setting(**{"device": "cpu"} | fields)
    whole = run(config, trajectories(P, R, R, N, 1, V, taught=own.teacher == "live"), Work.of(own))
    found = micro_batch(config, own)
    assert (found.kept, found.peak) == (whole.kept, whole.peak)


@pytest.mark.parametrize("fields", [*WAYS[:3], *(pytest.param(way, marks=pytest.mark.slow) for way in WAYS[3:])])
def test_the_peak_is_that_of_tensors_with_data(fields):
    """The same pass with data: the most bytes that all its tensors have, above weights and gradients."""
    own = setting(device="cpu", **fields)
    work = Work.of(own)
    model = AutoModelForCausalLM.from_config(with_layers(tiny_model(V).config, 3), attn_implementation="sdpa").eval()
    if work.rank:
        lora.add(model, LoraConfig(rank=work.rank), "", 0)
    if work.checkpointing:
        recompute_layers(model)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight) if weight.requires_grad else None
    tails = trajectories(P, R, R, N, 1, V, taught=work.hindsight > 0)
    if not work.shared:
        tails[-1] = replace(tails[-1], ids=tails[-1].ids[:-1], scored=tails[-1].scored[:-1])  # else there is no mask
    told = [branches(tail, work.turns, work.hindsight, V) if work.hindsight else () for tail in tails]
    with Live() as live:
        logps, _ = logprobs_with_branches(model, tails, told, 1.0, work.shared)
        total = torch.cat(logps).sum()
        gc.collect()
        total.backward()
    assert micro_batch(with_layers(model.config, 3), own).peak == pytest.approx(live.peak, rel=0.02)


def test_gradients_of_shared_prompts_wait_for_each_other():
    """A weight's gradient of the rows, 4 bytes an element, is there until that of the prompts comes."""
    def most(width: int) -> int:
        config = with_layers(tiny_model(V).config, 4)
        config.intermediate_size = width
        return micro_batch(config, setting(shared=True, checkpointing=True)).peak

    assert most(4800) - most(2400) > 4 * 3 * 32 * 2400 * 4


def test_where_ranks_pass_together_a_prompt_of_one_trajectory_is_a_pass_too():
    config, alone = tiny_model(V).config, {"group": 1, "checkpointing": True}
    config.intermediate_size = 4800  # so that gradients that wait are most
    zero1, zero2 = (micro_batch(config, setting(engine="deepspeed", zero=stage, **alone)) for stage in (1, 2))
    assert (zero1.tokens, zero2.tokens) == (P + R, P + R) and zero2.peak > zero1.peak


def test_sharing_checkpointing_and_small_micro_batches_need_less():
    config = with_layers(tiny_model(V).config, 3)
    plain = micro_batch(config, setting(shared=False))
    shared = micro_batch(config, setting(shared=True))
    again = micro_batch(config, setting(shared=False, checkpointing=True))
    small = micro_batch(config, setting(shared=False, micro_tokens=P + R))
    assert shared.kept < plain.kept / 2 and again.kept < plain.kept / 2
    assert small.kept == pytest.approx(plain.kept / N, rel=0.05) and small.count == N


def test_adapters_keep_their_own_inputs():
    config = tiny_model(V).config
    full, adapted = micro_batch(config, setting()), micro_batch(config, setting(rank=2))
    assert 0.5 * full.kept < adapted.kept < 1.5 * full.kept
