"""A model attends its own way again after a shared pass, also after an error."""

import numpy as np
import pytest
import torch

from serl.backbone import Backbone
from serl.errors import InputError
from serl.shared_prefix import Prompts
from serl.shared_rows import Rows
from serl.token_tree import Tree
from tests.models import tiny_model


def tree(ids: list[int]) -> Tree:
    made = Tree()
    made.add(ids)
    return made


def test_the_models_own_attention_is_back_after_a_shared_pass_also_after_an_error():
    model = tiny_model(64)
    before = model.config._attn_implementation
    prompts = Prompts(Backbone(model), [[3, 4, 5]])
    assert Rows(prompts, [0], [tree([6, 7])], [np.arange(2)]).hidden_BSD.shape == (1, 2, 32)
    assert model.config._attn_implementation == before
    with pytest.raises(IndexError):
        Rows(prompts, [0], [tree([10_000])], [np.arange(1)])
    assert model.config._attn_implementation == before


def test_attention_with_options_that_cannot_share_is_refused():
    from transformers import MistralConfig, MistralForCausalLM

    model = MistralForCausalLM(MistralConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                                             num_attention_heads=4, num_key_value_heads=2, sliding_window=8))
    with pytest.raises(InputError, match="MistralAttention has sliding_window"):
        Prompts(Backbone(model), [[3, 4, 5]])


def test_prompts_of_any_lengths_are_encoded_in_batches_without_masks():
    model = tiny_model(64)
    lengths = [40, 3, 44, 5, 21]
    many = [torch.randint(3, 64, (length,), generator=torch.Generator().manual_seed(length)).tolist()
            for length in lengths]
    together = Prompts(Backbone(model), many)
    assert len(together.batches) == 3
    for number, prompt in enumerate(many):
        alone = Prompts(Backbone(model), [prompt])
        (span,) = together.spans([number])
        for kind in ("keys", "values"):
            for layer, other in zip(getattr(together, kind), getattr(alone, kind)):
                torch.testing.assert_close(layer[span.tensor][span.index, :, :span.length], other[0][0])
