"""Shared computation gives the plain way's log-probs and gradients, to rounding, and its mistakes would be seen."""

import copy
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from serl import shared_prefix, shared_rows
from serl.ragged import pad
from serl.recompute import recompute_layers
from serl.train import sharing
from serl.train.scoring import Tail, logprobs, logprobs_with_branches, micro_batches, score
from tests.models import tiny_model

VOCABULARY = 24  # few tokens: sequences begin alike by chance too
MODELS = {(tied, dtype): tiny_model(VOCABULARY, dtype=dtype, tied=tied)
          for tied in (True, False) for dtype in (torch.float32, torch.float64)}
tokens = st.integers(3, VOCABULARY - 1)


@pytest.fixture(autouse=True)
def sharing_at_any_size(monkeypatch):
    monkeypatch.setattr(sharing, "LEAST", 1)
    monkeypatch.setattr(sharing, "SHARE", 0.0)


@contextmanager
def true_float64():
    """Qwen3's RMSNorm in the precision of its input: the library's computes in float32 whatever that is."""
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

    def forward(self, hidden):
        return self.weight * hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    with mock.patch.object(Qwen3RMSNorm, "forward", forward):
        yield


@st.composite
def groups(draw) -> tuple[list[Tail], list[list[Tail]]]:
    """Ragged groups of trajectories of one to three turns, and for each turn maybe a teacher's branch."""
    tails, branches = [], []
    for prompt in draw(st.lists(st.lists(tokens, min_size=2, max_size=14), min_size=1, max_size=3)):
        splice = draw(st.integers(1, len(prompt) - 1))
        for _ in range(draw(st.integers(1, 4))):
            ids, scored, own = list(prompt), [], []
            for turn in range(draw(st.integers(1, 3))):
                observation = draw(st.lists(tokens, min_size=1, max_size=4)) if turn else []
                action = draw(st.lists(tokens, min_size=1, max_size=6))
                ids += observation
                cut = splice if turn == 0 else len(ids) - 1
                if draw(st.booleans()):
                    state = [*ids[:cut], *draw(st.lists(tokens, max_size=5)), *ids[cut:]]
                    own.append(Tail([*state, *action], len(state), splice))
                ids += action
                scored += [False] * len(observation) + [True] * len(action)
            tails.append(Tail(ids, len(prompt), splice, scored))
            branches.append(own)
    return tails, branches


def outcome(model, tails: list[Tail], branches: list[list[Tail]], share: bool, temperature: float = 0.8,
            micro_tokens: int = 10_000) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """All log-probs, and every parameter's gradient of a sum that weighs each of the tails' differently."""
    model.zero_grad()
    found: dict[int, torch.Tensor] = {}
    for batch in micro_batches(tails, micro_tokens, share):
        own, grown = logprobs_with_branches(model, [tails[i] for i in batch], [branches[i] for i in batch], temperature,
                                            share)
        for i, logp, taught in zip(batch, own, grown):
            weight = torch.linspace(-1.0, 2.0 + i, len(logp), dtype=logp.dtype)
            assert not any(branch.requires_grad for branch in taught)
            (torch.where(torch.tensor(tails[i].mask), logp, 0.0) * weight).sum().backward(retain_graph=True)
            found[i] = torch.cat([logp.detach(), *taught])
    return (torch.cat([found[i] for i in range(len(tails))]),
            {name: parameter.grad for name, parameter in model.named_parameters()})


def distance(found, expected, floor: float = 0.0) -> tuple[float, float]:
    """Largest difference of a log-prob, and of a parameter's gradient relative to the norm of that gradient.

    A gradient's norm counts as `floor` of the largest one's at least: some are zero but for rounding, such as those of
    queries whose tokens are all the same.
    """
    (logp, gradients), (other, others) = found, expected
    assert torch.equal(logp.isnan(), other.isnan())
    norms = {name: gradient.norm().item() for name, gradient in others.items()}
    least = floor * max(norms.values())
    return ((logp - other).nan_to_num(0.0).abs().max().item(),
            max((gradients[name] - others[name]).norm().item() / max(norms[name], least) for name in others))


@given(groups(), st.booleans(), st.sampled_from([30, 10_000]))
@settings(max_examples=25)
def test_log_probs_and_gradients_are_the_plain_ways_in_float32(made, tied, micro_tokens):
    model = MODELS[tied, torch.float32]
    logp, gradient = distance(outcome(model, *made, share=True, micro_tokens=micro_tokens),
                              outcome(model, *made, share=False), floor=0.1)
    assert logp < 1e-5 and gradient < 1e-5


@given(groups(), st.booleans(), st.sampled_from([30, 10_000]))
@settings(max_examples=25)
def test_log_probs_and_gradients_are_the_plain_ways_in_true_float64(made, tied, micro_tokens):
    model = MODELS[tied, torch.float64]
    with true_float64():
        logp, gradient = distance(outcome(model, *made, share=True, micro_tokens=micro_tokens),
                                  outcome(model, *made, share=False), floor=0.1)
    assert logp < 1e-12 and gradient < 1e-12


PROMPT = list(range(3, 20))
GROUP = [Tail([*PROMPT, 5, 6, 7, 8], 17, 14, (True, True, False, True)), Tail([*PROMPT, 5, 9], 17, 14),
         Tail([*PROMPT, 11, 12, 13, 5, 6, 3, 4, 4], 17, 14)]
BRANCHES = [[Tail([*PROMPT[:14], 21, 22, *PROMPT[14:], 5, 6], 19, 14)],
            [], [Tail([*PROMPT, 11, 23, 22, 12, 13], 20, 14), Tail([*PROMPT[:14], 20, *PROMPT[14:], 11], 18, 14)]]


@pytest.fixture(scope="module")
def expected():
    return outcome(MODELS[True, torch.float32], GROUP, BRANCHES, share=False)


def found_with(**patches):
    """Distance of the shared way from the plain one with parts of it replaced."""
    with mock.patch.multiple(sharing, **patches):
        return outcome(MODELS[True, torch.float32], GROUP, BRANCHES, share=True)


def test_the_example_agrees(expected):
    logp, gradient = distance(outcome(MODELS[True, torch.float32], GROUP, BRANCHES, share=True), expected)
    assert logp < 1e-5 and gradient < 1e-5


def test_a_detached_cache_is_seen_in_the_gradients_and_nowhere_else(expected):
    class Detached(shared_prefix.Prompts):
        def __init__(self, *args) -> None:
            super().__init__(*args)
            self.keys, self.values = ([[part.detach() for part in layer] for layer in layers]
                                      for layers in (self.keys, self.values))

    logp, gradient = distance(found_with(Prompts=Detached), expected)
    assert logp < 1e-5 and gradient > 1e-2


def test_keys_and_values_of_other_weights_are_seen(expected):
    other = sharing.Backbone(tiny_model(VOCABULARY, seed=1))

    def prompts_of_other(backbone, prompts, embed):
        made = shared_prefix.Prompts(other, prompts)
        made.backbone, made.embed = backbone, embed
        return made

    logp, _ = distance(found_with(Prompts=prompts_of_other), expected)
    assert logp > 1e-2


def test_a_branch_on_the_trunk_of_weights_that_have_moved_is_seen(expected):
    class Late(shared_rows.Rows):
        def branch(self, branches):
            parameters = list(MODELS[True, torch.float32].parameters())
            before = [parameter.data for parameter in parameters]
            for parameter in parameters:
                parameter.data = 1.05 * parameter.data  # as an optimizer's step between the two would
            found = super().branch(branches)
            for parameter, value in zip(parameters, before):
                parameter.data = value
            return found

    assert distance(found_with(Rows=Late), expected)[0] > 1e-3


def test_a_short_mask_is_seen(expected):
    class Short(shared_prefix.Prompts):
        def spans(self, owner):
            return [replace(span, length=span.length - 1) for span in super().spans(owner)]

    logp, _ = distance(found_with(Prompts=Short), expected)
    assert logp > 1e-3


def test_padding_on_the_left_gives_the_same_log_probs():
    model = MODELS[True, torch.float32]
    ids_BL = pad([tail.ids for tail in GROUP], 0, torch.long, "cpu", left=True)
    mask_BL = pad([[1] * len(tail.ids) for tail in GROUP], 0, torch.long, "cpu", left=True)
    with torch.no_grad():
        logits = model(input_ids=ids_BL, attention_mask=mask_BL,
                       position_ids=(mask_BL.cumsum(1) - 1).clamp(min=0)).logits
    logp_BL = logits[:, :-1].log_softmax(-1).gather(-1, ids_BL[:, 1:, None])[..., 0]
    for tail, found, row in zip(GROUP, score(model, GROUP, 1000, 1.0, share=True), logp_BL):
        chosen = torch.tensor(tail.mask)
        torch.testing.assert_close(found[chosen], row[-len(found):][chosen], rtol=0, atol=1e-5)


def encoded_by(model, work) -> list[int]:
    """How many tokens, padding included, each pass through the decoder had."""
    sizes = []
    handle = model.model.register_forward_hook(
        lambda module, args, kwargs, output: sizes.append(output.last_hidden_state.shape[:2].numel()), with_kwargs=True)
    work()
    handle.remove()
    return sizes


def test_each_token_is_encoded_once():
    model = MODELS[True, torch.float32]
    prompt, actions = list(range(3, 23)), [[7, 8, 9, 10 + n] for n in range(8)]
    group = [Tail([*prompt, *action], 20, 19) for action in actions]
    packed = 1 + 3 + 8  # the prompt's last token, what the actions begin with, and the last token of each
    assert encoded_by(model, lambda: logprobs(model, group, 1.0, share=True)) == [19, packed]
    strangers = [Tail([*prompt, *[3 + n] * 60], 20, 19) for n in range(4)]
    assert encoded_by(model, lambda: logprobs(model, strangers, 1.0, share=True)) == [19, 4 * 61]
    branches = [[Tail([*prompt, *action[:2], 20 + n % 3, *action], 23, 19)] for n, action in enumerate(actions)]
    assert encoded_by(model, lambda: logprobs_with_branches(model, group, branches, 1.0, True)) == [19, packed, 8 * 5]


def test_only_logits_of_scored_tokens_are_made(monkeypatch):
    made = []
    original = sharing.token_logprobs
    monkeypatch.setattr(sharing, "token_logprobs",
                        lambda hidden, *rest: made.append(len(hidden)) or original(hidden, *rest))
    found = logprobs(MODELS[True, torch.float32], GROUP, 1.0, share=True)
    assert made == [3 + 2 + 8]
    assert [logp.isnan().tolist() for logp in found[:2]] == [[False, False, True, False], [False, False]]


@pytest.mark.parametrize("prompt, own, share", [
    (1500, [200] * 8, True), (1500, [200], False), (3, [200] * 8, False), (40, [4, 4], False), (70, [4, 4], True),
    (8, [2] * 4, False), (100, [900, 900], False), (300, [900, 900], True)])
def test_sharing_is_for_prompts_that_save_enough(monkeypatch, prompt, own, share):
    monkeypatch.undo()
    assert sharing.is_worthwhile(prompt, own) is share


def test_a_group_of_one_is_encoded_whole_and_its_branches_among_themselves(monkeypatch):
    monkeypatch.setattr(sharing, "LEAST", 10_000)
    model = MODELS[True, torch.float32]
    sizes = encoded_by(model, lambda: logprobs(model, GROUP[:1], 1.0, share=True))
    assert sizes == [21]
    assert distance(outcome(model, GROUP, BRANCHES, True), outcome(model, GROUP, BRANCHES, False))[0] < 1e-5


@given(groups(), st.booleans())
@settings(max_examples=10)
def test_layers_that_are_computed_again_share_prompts_and_give_the_same_log_probs_and_gradients(made, tied):
    model = copy.deepcopy(MODELS[tied, torch.float32])
    kept = outcome(model, *made, share=True)
    recompute_layers(model)
    logp, gradient = distance(outcome(model, *made, share=True), kept, floor=0.1)
    assert logp < 1e-6 and gradient < 1e-6


def test_lora_layers_are_part_of_the_pass_and_only_they_get_gradients():
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(tiny_model(VOCABULARY), peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    found, plain = ({name: gradient for name, gradient in gradients.items() if gradient is not None} | {"logp": logp}
                    for logp, gradients in (outcome(model, GROUP, BRANCHES, share) for share in (True, False)))
    assert found.keys() == plain.keys() and len(found) == 1 + 2 * 2 * 2
    for name, value in plain.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5, equal_nan=True)
    with model.disable_adapter():
        off = score(model, GROUP, 1000, 1.0, share=True)
    assert not torch.allclose(off[1], score(model, GROUP, 1000, 1.0, share=True)[1])
    torch.testing.assert_close(off[1], score(tiny_model(VOCABULARY), GROUP, 1000, 1.0, share=False)[1], rtol=0,
                               atol=1e-5)


def test_states_are_what_the_head_makes_log_probs_of():
    model = MODELS[False, torch.float64]
    tails = [replace(tail, scored=None) for tail in GROUP]
    for tail, states, logp in zip(tails, sharing.shared_states(model, tails), logprobs(model, tails, 1.0, False)):
        made = model.lm_head(states).log_softmax(-1)
        torch.testing.assert_close(made[range(len(logp)), tail.ids[tail.first:]], logp, rtol=0, atol=1e-6)


def test_the_last_layer_attends_for_wanted_tokens_only(monkeypatch):
    queries = []
    original = shared_rows.prefix_attention
    monkeypatch.setattr(shared_rows, "prefix_attention",
                        lambda query, *rest: queries.append(query.shape[2]) or original(query, *rest))
    model = MODELS[True, torch.float32]
    tails = [Tail([*PROMPT, *[first] * 8, 5, 6], 17, 16, [False] * 8 + [True] * 2) for first in (7, 9, 11)]
    branches = [[Tail([*PROMPT, *[first] * 4, 20, 21, 22, 23, 5], 25, 16)] for first in (7, 9, 11)]
    found = outcome(model, tails, branches, share=True)
    assert queries == [11, 2, 4 + 1, 1]  # the rows' two layers, then the branches'
    logp, gradient = distance(found, outcome(model, tails, branches, share=False))
    assert logp < 1e-5 and gradient < 1e-5


def test_a_branch_may_part_from_its_tree_at_a_scored_token():
    model = MODELS[True, torch.float32]
    tails = [Tail([*PROMPT, *[first] * 8, 5, 6], 17, 16, [False] * 8 + [True] * 2) for first in (7, 9, 11)]
    branches = [[Tail([*PROMPT, first, first, 20, 21], 19, 16)] for first in (7, 9, 11)]
    logp, _ = distance(outcome(model, tails, branches, share=True), outcome(model, tails, branches, share=False))
    assert logp < 1e-5
