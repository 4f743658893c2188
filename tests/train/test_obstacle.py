"""Models that cannot share are found before training, by name where the config tells, else by their numbers."""

import logging

import pytest
import torch

from serl.train.obstacle import can_share, obstacle
from tests.models import tiny_model

SMALL = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8}


def test_the_embedded_architecture_can_share_in_every_precision():
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        assert obstacle(tiny_model(64, dtype=dtype)) is None


def test_sliding_window_attention_cannot_and_it_is_logged(caplog):
    from transformers import MistralConfig, MistralForCausalLM

    with caplog.at_level(logging.WARNING):
        assert not can_share(MistralForCausalLM(MistralConfig(**SMALL, sliding_window=8)))
    assert "MistralForCausalLM" in caplog.text and "sliding_window" in caplog.text and "whole" in caplog.text


def test_a_window_that_only_the_mask_knows_and_no_short_trial_could_see_is_named():
    from transformers import PhimoeConfig, PhimoeForCausalLM

    model = PhimoeForCausalLM(PhimoeConfig(**SMALL, num_local_experts=2, sliding_window=4096))
    assert "sliding_window" in obstacle(model)
    model.config.sliding_window = None
    assert obstacle(model) is None


def test_a_window_that_no_layer_has_is_no_obstacle():
    model = tiny_model(64)
    model.config.sliding_window = 4096
    assert set(model.config.layer_types) == {"full_attention"} and obstacle(model) is None


def test_a_model_with_attention_of_its_own_cannot():
    from transformers import MambaConfig, MambaForCausalLM

    model = MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1))
    assert "cannot share a prompt" in obstacle(model)


def test_logits_that_are_changed_after_the_head_are_named():
    from transformers import CohereConfig, CohereForCausalLM, Gemma2Config, Gemma2ForCausalLM

    assert "final_logit_softcapping" in obstacle(Gemma2ForCausalLM(Gemma2Config(**SMALL)))
    assert "logit_scale" in obstacle(CohereForCausalLM(CohereConfig(
        **{key: value for key, value in SMALL.items() if key != "head_dim"})))


def test_dropout_of_the_attention_and_of_modules_is_named():
    model = tiny_model(64)
    model.model.layers[0].mlp.act_fn = torch.nn.Sequential(model.model.layers[0].mlp.act_fn, torch.nn.Dropout(0.1))
    assert "dropout" in obstacle(model)
    model = tiny_model(64)
    model.config.attention_dropout = 0.1
    assert "dropout" in obstacle(model)


def test_a_head_that_is_no_linear_layer_is_named():
    model = tiny_model(64)
    model.set_output_embeddings(torch.nn.Sequential(model.lm_head))
    assert "Sequential" in obstacle(model)


def test_a_head_with_a_bias_can_share():
    from transformers import PhiConfig, PhiForCausalLM

    model = PhiForCausalLM(PhiConfig(**{key: value for key, value in SMALL.items() if key != "head_dim"},
                                     resid_pdrop=0.0, embd_pdrop=0.0))
    torch.nn.init.normal_(model.lm_head.bias)
    assert obstacle(model) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers_that_differ_are_an_obstacle(monkeypatch, dtype):
    model = tiny_model(64, dtype=dtype)
    forward = model.forward

    def louder(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.logits = 1.5 * output.logits
        return output

    monkeypatch.setattr(model, "forward", louder)
    assert "log-probs differ" in obstacle(model)
