"""Memory of a GPU: the published formulas of ZeRO, and a small model by hand."""

from dataclasses import replace

import pytest

from serl.commands.options import parse_overrides
from serl.config import Config, load_config
from serl.plan import memory
from serl.plan.fit import changes, proposals
from serl.plan.known import GIB, gpu
from serl.plan.memory import beside, kv_tokens, plan_memory, shares, stages, states
from serl.plan.parameters import Counts, count
from serl.plan.setting import Asked, setting_of
from tests.models import tiny_model

BILLION = Counts(total=10**9, trained=10**9, embedding=10**8, head=0, layers=10, layer=9 * 10**7, tensor=10**8,
                 width=1000, vocabulary=10**5, heads=8, kv_heads=2, head_dim=125)


def setting(**fields):
    fields = {"dtype": "bfloat16", "sampler_dtype": "bfloat16", "gpus": 8} | fields
    return replace(setting_of(Config(), Asked(1, gpu("H100"))), **fields)


def sizes(counts=BILLION, **fields) -> dict[str, int]:
    return {part.name: part.bytes for part in states(counts, setting(**fields))[0]}


@pytest.mark.parametrize("stage, published", [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_the_shares_are_those_of_the_zero_paper(stage, published):
    """arXiv 1910.02054, figure 1: 7.5 B parameters on 64 GPUs, 2 bytes of weights, 2 of gradients, 12 of the rest."""
    whole, gradients, rest = shares(stage, 64)
    assert 7.5 * (2 * whole + 2 * gradients + 12 * rest) == pytest.approx(published, abs=0.06)


def test_a_step_of_zero_3_is_what_deepspeed_says():
    """DeepSpeed's page "Memory Requirements": 2,851 M parameters, the largest layer 32 M, 8 GPUs: 6.10 GB a GPU.

    That is 4 · largest + 18 Ψ / N: 16-bit weights, and float32 weights, gradients and two moments.
    """
    counts = replace(BILLION, total=2_851_000_000, trained=2_851_000_000)
    found = sizes(counts, zero=3, engine="deepspeed")
    assert set(found) == {"weights", "gradients", "optimizer", "masters"}
    assert (sum(found.values()) + 4 * 32_000_000) / GIB == pytest.approx(6.10, abs=0.02)


def test_states_by_hand():
    assert sizes() == {"weights": 2 * 10**9, "gradients": 4 * 10**9, "optimizer": 8 * 10**9, "masters": 4 * 10**9}
    assert sizes(dtype="float32") == {"weights": 4 * 10**9, "gradients": 4 * 10**9, "optimizer": 8 * 10**9,
                                      "masters": 0}
    assert sizes(zero=2) == {"weights": 2 * 10**9, "gradients": 5 * 10**8, "optimizer": 10**9, "masters": 5 * 10**8}
    adapted = replace(BILLION, trained=10**7)
    assert sizes(adapted, rank=8) == {"weights": 2 * 10**9 + 4 * 10**7, "gradients": 4 * 10**7, "optimizer": 8 * 10**7,
                                      "masters": 0}
    for fields in ({"dtype": "float32"}, {"rank": 8}):  # DeepSpeed steps copies, whatever the weights are
        assert sizes(adapted, engine="deepspeed", zero=1, **fields)["masters"] == 4 * 10**7 // 8


def test_what_is_offloaded_waits_on_the_host():
    on_gpu, on_host = states(BILLION, setting(zero=3, offload="parameters"))
    assert on_gpu == [] and sum(part.bytes for part in on_host) == 18 * 10**9 // 8
    on_gpu, on_host = states(BILLION, setting(zero=1, offload="optimizer"))
    assert [part.name for part in on_gpu] == ["weights"] and {part.name for part in on_host} == {
        "gradients", "optimizer", "masters"}


def test_models_that_are_only_read():
    def found(**fields) -> dict[str, int]:
        return {part.name: part.bytes for part in beside(BILLION, setting(**fields)) if part.bytes}

    assert found(teacher="live") == found(teacher="none") == {}
    assert found(teacher="periodic", reference=True) == {"teacher": 2 * 10**9, "reference": 2 * 10**9}
    assert found(teacher="ema") == {"teacher": 6 * 10**9}
    assert found(teacher="frozen", zero=3) == {"teacher": 2 * 10**9 // 8}
    assert found(teacher="periodic", overlap=True, rank=8)["sampling ahead"] == 4 * 10**9


def test_keys_and_values_count_a_shared_prompt_once():
    own = {"questions": 16, "group": 4, "prompt": 100, "response": 10, "gpus": 8}
    assert kv_tokens(setting(sequences=64, **own)) == 2 * 100 + 8 * 10  # two questions a GPU
    assert kv_tokens(setting(sequences=4, **own)) == 100 + 4 * 10
    assert kv_tokens(setting(sequences=64, shared=False, **own)) == 8 * 110


@pytest.fixture(scope="module")
def small():
    config = tiny_model(64).config
    return config, count(config)


def planned(small, **fields):
    base = {"gpus": 2, "prompt": 60, "response": 6, "sampled": 6, "group": 2, "questions": 2, "turns": 1}
    return plan_memory(*small, setting(**base | fields))


def test_parts_of_a_phase_add_up(small):
    found = planned(small, teacher="periodic", micro_tokens=66)
    parts = {part.name: part.bytes for part in found.parts}
    total = small[1].total
    assert parts["teacher"] == parts["weights"] == 2 * total and parts["gradients"] == 4 * total
    standing = 20 * total + memory.CONTEXT + memory.NCCL  # 2 + 4 + 8 + 4 and the teacher's 2
    assert found.of("step") == standing + parts["stepping"]
    assert found.of("update") == standing + found.micro.peak + parts["fragmentation"]
    assert found.of("rollout") == standing + kv_tokens(found.setting) * 2 * 2 * 2 * 8 * 2 + parts["logits of rows"]
    assert found.peak == max(found.of(phase) for phase in memory.PHASES) and found.fits


def test_vllm_gives_its_memory_back_when_it_sleeps(small):
    awake, asleep = (planned(small, sampler="colocated", kv_cache=10**9, sleep=sleep) for sleep in (False, True))
    assert awake.of("rollout") == asleep.of("rollout")
    assert awake.of("update") - asleep.of("update") == 10**9 + 2 * small[1].total
    elsewhere = planned(small, sampler="elsewhere", kv_cache=10**9)
    assert awake.of("rollout") - elsewhere.of("rollout") == 10**9 + 2 * small[1].total + memory.VLLM


def test_higher_stages_need_less_of_what_they_share(small):
    found = stages(*small, planned(small).setting, (0, 1, 2, 3))
    held = [sum(part.bytes for part in one.parts if part.name in ("weights", "gradients", "optimizer", "masters"))
            for one in found]
    total = small[1].total
    assert held == [18 * total, 12 * total, 10 * total, 9 * total]


@pytest.mark.slow
def test_the_cheapest_change_that_fits_comes_first(small):
    config, counts = small
    needed = planned(small, prompt=200, shared=False, micro_tokens=10**6)
    sharing = planned(small, prompt=200, shared=True, micro_tokens=10**6)
    card = replace(gpu("H100"), memory=(needed.peak + sharing.peak) // 2)
    assert sharing.peak < card.memory < needed.peak
    found = proposals(config, counts, replace(needed.setting, gpu=card))
    assert found[0].texts == ("--model.shared_prefix true",) and found[0].memory.peak == sharing.peak
    assert all(proposal.memory.fits for proposal in found)
    assert proposals(config, counts, replace(needed.setting, gpu=replace(card, memory=1000))) == []


def test_nothing_is_proposed_that_is_so_already():
    texts = {change.text for change in changes(setting(zero=3, checkpointing=True, shared=True, teacher="live", rank=8,
                                                       offload="optimizer", micro_tokens=1, score_first=True))}
    assert texts and all(text.startswith("--gpus") for text in texts)


@pytest.mark.parametrize("fields", [{}, {"teacher": "live"}, {"overlap": True, "sampler": "hf"}])
def test_what_is_proposed_is_a_config_that_loads(fields):
    """Alone, beside what the setting was made of."""
    base = {"live": ["--hindsight.teacher.mode", "live"]}.get(fields.get("teacher"), [])
    base += ["--rollout.overlap", "1", "--train.tis", "token"] if fields.get("overlap") else []
    for change in changes(setting(**{"teacher": "periodic", "sampler": "hf"} | fields)):
        words = change.text.split() + base
        if words[0] == "--gpus":
            words = words[2:]
        assert load_config(None, parse_overrides(words))


def test_gradients_of_several_gpus_are_summed_in_buckets(small):
    """PyTorch's engine: all gradients as one tensor, since they are few, and the largest one as it was."""
    largest = small[1].tensor
    parts = {part.name: part.bytes for part in planned(small, dtype="float32", sampler_dtype="float32").parts}
    assert parts["stepping"] == 4 * (small[1].trained + largest)
    assert {part.name: part.bytes for part in planned(small, gpus=1).parts}["stepping"] == 4 * small[1].trained


def test_deepspeed_leaves_no_gradients_behind_for_the_rollout():
    for engine, phases in (("torch", memory.PHASES), ("deepspeed", ("update", "step"))):
        (gradients,) = (part for part in states(BILLION, setting(engine=engine))[0] if part.name == "gradients")
        assert gradients.phases == phases
