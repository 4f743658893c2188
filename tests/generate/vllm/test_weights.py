"""Weights on their way: names and values of a checkpoint, adapters added, files whole; fingerprints that tell."""

import pytest
import torch
from safetensors.torch import load_file

from serl import lora
from serl.config import LoraConfig
from serl.generate.vllm.fingerprint import differing, of_vector, of_weight, signs
from serl.generate.vllm.weights import checkpoint_weights, write_weights
from tests.models import tiny_model


@pytest.mark.parametrize("tied", [True, False])
def test_the_file_is_what_the_model_would_save(tmp_path, tied):
    model = tiny_model(40, tied=tied)
    model.save_pretrained(tmp_path / "saved")
    saved, sent = (load_file(path) for path in (tmp_path / "saved" / "model.safetensors",
                                                write_weights(tmp_path, model, torch.float32, "a-1")[0]))
    assert saved.keys() == sent.keys() and ("lm_head.weight" in sent) == (not tied)
    assert all(torch.equal(saved[name], sent[name]) for name in saved)


def test_only_the_last_version_is_kept_and_none_is_ever_half_there(tmp_path):
    model = tiny_model(40)
    first, _ = write_weights(tmp_path, model, torch.float32, "a-1")
    second, _ = write_weights(tmp_path, model, torch.bfloat16, "a-2")
    assert not first.exists() and sorted(tmp_path.iterdir()) == [second]
    assert {value.dtype for value in load_file(second).values()} == {torch.bfloat16}


def test_adapters_are_added_to_the_weights_of_their_layer():
    model, plain = tiny_model(40), tiny_model(40)
    lora.add(model, LoraConfig(rank=2, alpha=6.0), "somewhere", seed=0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    sent = dict(checkpoint_weights(model, torch.float32))
    assert sent.keys() == dict(plain.named_parameters()).keys()
    layer = model.model.layers[1].mlp.up_proj
    by_hand = layer.base_layer.weight + 3.0 * layer.lora_B["default"].weight @ layer.lora_A["default"].weight
    torch.testing.assert_close(sent["model.layers.1.mlp.up_proj.weight"], by_hand)
    plain.load_state_dict(sent, strict=False)
    ids = torch.tensor([[1, 2, 3, 4]])
    torch.testing.assert_close(plain(ids).logits, model(ids).logits, atol=1e-4, rtol=0)


def test_a_fingerprint_is_the_signed_sum_and_the_size_of_what_the_weight_makes_of_signs():
    weight = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    x, u = signs(3, 1).tolist(), signs(2, 2).tolist()
    assert set(signs(64, 1).tolist()) == {-1.0, 1.0}
    rows = [x[0] + 2 * x[1] + 3 * x[2], 4 * x[0] + 5 * x[1] + 6 * x[2]]
    assert of_weight(weight) == pytest.approx([u[0] * rows[0] + u[1] * rows[1], (rows[0] ** 2 + rows[1] ** 2) ** 0.5])
    assert of_vector(torch.tensor(rows)) == pytest.approx(of_weight(weight))


def test_one_element_that_differs_in_one_parameter_is_found_and_named(tmp_path):
    model = tiny_model(40, tied=False)
    _, mine = write_weights(tmp_path, model, torch.float32, "a-1")
    assert len(mine) == len(list(model.named_parameters()))
    engine = {name: [*pair, "stored"] for name, pair in mine.items()}
    assert differing(mine, engine, "float32") == []
    with torch.no_grad():
        model.model.layers[1].self_attn.k_proj.weight[3, 5] += 1e-6
    _, other = write_weights(tmp_path, model, torch.float32, "a-2")
    engine = {name: [*pair, "stored"] for name, pair in other.items()}
    assert differing(mine, engine, "float32") == ["model.layers.1.self_attn.k_proj.weight"]


def test_fingerprints_are_those_of_what_the_file_holds(tmp_path):
    path, prints = write_weights(tmp_path, tiny_model(40, tied=False), torch.bfloat16, "a-1")
    assert prints == {name: of_weight(weight) for name, weight in load_file(path).items()}


def test_a_tied_head_has_a_fingerprint_too_since_an_engine_may_hold_a_copy_of_it(tmp_path):
    _, prints = write_weights(tmp_path, tiny_model(40), torch.float32, "a-1")
    assert prints["lm_head.weight"] == prints["model.embed_tokens.weight"]


def test_applied_weights_may_differ_by_rounding_and_not_by_more():
    mine = {"a": [10.0, 2.0]}
    for found, dtype, same in ((10.0 + 1e-5, "float32", True), (10.0 + 1e-4, "float32", False),
                               (10.0 + 1e-2, "bfloat16", True), (10.0 + 1e-1, "bfloat16", False),
                               (float("nan"), "float32", False)):
        assert (differing(mine, {"a": [found, 2.0, "applied"]}, dtype) == []) == same
    assert differing(mine, {"b": [0.0, 0.0, "stored"]}, "float32") == [], "only what both have is compared"
