"""Counts of parameters: by hand for a small model, and the published ones."""

import json

import pytest

from serl import lora
from serl.config import LoraConfig
from serl.errors import InputError
from serl.plan.known import models
from serl.plan.parameters import build, config_of_fields, count, read_config, with_layers
from tests.models import tiny_model


def test_a_small_model_by_hand():
    counts = count(tiny_model(64).config)
    attention = 32 * 32 + 2 * 32 * 16 + 32 * 32 + 2 * 8  # q, k and v, o, norms of q and k
    layer = attention + 3 * 32 * 48 + 2 * 32
    assert counts.layer == layer and counts.body == 2 * layer + 32
    assert counts.total == 64 * 32 + 2 * layer + 32 == sum(weight.numel() for weight in tiny_model(64).parameters())
    assert counts.head == 0 and counts.embedding == 64 * 32 and counts.largest == layer
    assert counts.kv_bytes(2) == 2 * 2 * 2 * 8 * 2


def test_a_head_of_its_own_is_counted():
    tied, own = count(tiny_model(64).config), count(tiny_model(64, tied=False).config)
    assert own.total - tied.total == own.head == 64 * 32 and own.body == tied.body


def test_adapters_are_counted_as_peft_makes_them():
    config = tiny_model(64, tied=False).config
    for targets in (("all-linear",), ("q_proj", "down_proj")):
        model = build(config)
        lora.add(model, LoraConfig(rank=3, targets=targets), "", 0)
        made = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
        counts = count(config, 3, targets)
        assert counts.trained == made and counts.total == count(config).total


def test_the_published_counts():
    # Model cards: Qwen2.5-7B 7.61B and 6.53B without embedding; Qwen3-8B 8.2B and 6.95B.
    for name, total, body in (("Qwen2.5-7B", 7_615_616_512, 6_525_621_760), ("Qwen3-8B", 8_190_735_360, 6_946_075_648)):
        counts = count(read_config(name))
        assert (counts.total, counts.body) == (total, body)


def test_every_known_model_has_its_published_size():
    for name, row in models().items():
        config = config_of_fields(row["config"])
        one, two = (count(with_layers(config, layers)) for layers in (1, 2))
        total = one.total + (config.num_hidden_layers - 1) * (two.total - one.total)
        for key, found in (("parameters", total), ("non_embedding", total - one.embedding - one.head)):
            if (text := row["published"].get(key)) is not None:
                unit = {"B": 1e9, "M": 1e6}[text[-1]]
                assert found == pytest.approx(float(text[:-1]) * unit, rel=0.015), (name, key)


def test_keys_and_values_of_a_token():
    # 2 · 28 layers · 4 heads · 128 · 2 bytes; 2 · 36 · 8 · 128 · 2. Llama-3.1-8B's 128 KiB are the usual example.
    for name, size in (("Qwen2.5-7B", 57_344), ("Qwen3-8B", 147_456), ("Llama-3.1-8B", 131_072)):
        config = config_of_fields(models()[name]["config"])
        one = count(with_layers(config, 1)).kv_bytes(2)
        assert one * config.num_hidden_layers == size


def test_a_config_file_a_folder_and_a_name_are_the_same(tmp_path):
    config = tiny_model(64).config
    config.save_pretrained(tmp_path)
    found = [count(read_config(str(path))) for path in (tmp_path, tmp_path / "config.json")]
    assert found == [count(config)] * 2
    assert count(read_config(str(tmp_path), vocabulary=100)).embedding == 100 * 32


def test_what_is_no_model_is_an_input_error(tmp_path):
    (tmp_path / "other.json").write_text(json.dumps({"hidden_size": 8}))
    with pytest.raises(InputError, match="names no model_type.*Qwen2.5-7B"):
        read_config(str(tmp_path / "other.json"))
    with pytest.raises(InputError, match="no config can be read"):
        read_config("nobody/none")
