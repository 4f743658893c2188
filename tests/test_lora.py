"""Adapters: what is trained, shared, saved, merged and refused."""

import json
from dataclasses import replace

import pytest
import torch

from serl import lora
from serl import model as models
from serl.config import LoraConfig, TeacherConfig
from serl.errors import InputError
from serl.hindsight.teacher import Teacher
from serl.train import sharing
from serl.train.checkpoint import save_model
from serl.train.engine import TorchEngine
from serl.train.scoring import Tail, logprobs
from tests.models import tiny_model, tiny_tokenizer

OPTIONS = LoraConfig(rank=4, alpha=8.0)
IDS = torch.tensor([[5, 9, 30, 7, 12, 40]])


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture
def base(tmp_path, tokenizer):
    """A model folder."""
    save_model(tmp_path / "base", tiny_model(len(tokenizer)), tokenizer)
    return str(tmp_path / "base")


def adapted(model):
    """`model` with a new adapter whose B is no longer zero."""
    lora.add(model, OPTIONS, "somewhere", seed=3)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.copy_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(name))))
    return model


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


def test_a_new_adapter_changes_nothing_and_alone_is_trained(base):
    plain, _ = models.load(base, "float32")
    model, _ = models.load(base, "float32", OPTIONS, seed=3)
    assert torch.equal(logits(model), logits(plain)) and type(model) is type(plain)
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert trained and all(".lora_" in name for name in trained)
    assert len(trained) == 2 * 7 * 2  # two factors of seven linear layers in each of two blocks
    assert not any("lm_head" in name or "embed" in name for name in trained)
    again, other = (models.load(base, "float32", OPTIONS, seed=seed)[0].state_dict() for seed in (3, 4))
    same = model.state_dict()
    assert all(torch.equal(value, same[name]) for name, value in again.items())
    assert any(not torch.equal(value, same[name]) for name, value in other.items())


def test_an_adapter_adds_its_scaled_product_to_the_layer():
    model = adapted(tiny_model(64, tied=False))
    layer = model.model.layers[0].mlp.up_proj
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(x), x @ layer.get_base_layer().weight.T + 8 / 4 * x @ a.T @ b.T)


def test_an_update_moves_adapters_only():
    model = adapted(tiny_model(64))
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    engine = TorchEngine(model, 1e-2, 0.1, 1.0, lambda step: 1.0)
    engine.zero_grad()
    engine.backward(-sum(logprobs(model, [Tail(IDS[0].tolist(), 3, 2)], 1.0, True)).sum())
    engine.step()
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name]) == (".lora_" not in name)


@pytest.mark.parametrize("way", ["log-probs", "gradients"])
def test_shared_prompts_give_the_plain_ways_numbers_with_adapters(way, monkeypatch):
    monkeypatch.setattr(sharing, "LEAST", 1)
    model = adapted(tiny_model(64, dtype=torch.float64))
    tails = [Tail([5, 9, 30, 7, *own], 4, 3) for own in ([12, 40, 8], [13], [50, 51, 52, 53, 54])]
    found = []
    for share in (False, True):
        model.zero_grad()
        scored = torch.cat(logprobs(model, tails, 1.0, share))
        (scored * torch.linspace(-1, 2, len(scored))).sum().backward()
        found.append([scored.detach()] if way == "log-probs" else
                     [weight.grad for weight in model.parameters() if weight.requires_grad])
    for plain, shared in zip(*found):
        torch.testing.assert_close(shared, plain, rtol=1e-4, atol=1e-5 * plain.abs().max().item())


@pytest.mark.parametrize("mode", ["periodic", "ema", "frozen"])
def test_a_teacher_copies_the_adapter_and_shares_the_weights_beside_it(mode):
    model = adapted(tiny_model(64))
    teacher = Teacher(model, TeacherConfig(mode, sync_every=1, decay=0.75))
    assert torch.equal(logits(teacher.model), logits(model))
    own = {name for name, weight in teacher.model.named_parameters()
           if all(weight is not other for other in model.parameters())}
    assert own == {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert not any(weight.requires_grad for weight in teacher.model.parameters())
    start = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(0.2)
    assert torch.equal(logits(teacher.model), logits(twin(model, start))), "the student's step is not the teacher's"
    teacher.after_update(model, 1)
    share = {"periodic": 0.0, "ema": 0.75, "frozen": 1.0}[mode]
    for name, value in teacher.model.state_dict().items():
        torch.testing.assert_close(value, share * start[name] + (1 - share) * model.state_dict()[name])
    assert set(teacher.state_dict()["weights"]) == own, "a checkpoint holds no second copy of the base"


def twin(model, state):
    other = adapted(tiny_model(model.config.vocab_size))
    other.load_state_dict(state)
    return other


def test_a_saved_adapter_holds_no_base_weights_and_loads_bit_for_bit_and_merged(base, tmp_path, tokenizer):
    model, _ = models.load(base, "float32", OPTIONS)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(0.05)
    folder = tmp_path / "checkpoint"
    save_model(folder, model, tokenizer)
    assert not list(folder.glob("model*.safetensors"))
    again, _ = models.load(str(folder), "float32", OPTIONS)
    assert torch.equal(logits(again), logits(model))
    assert [name for name, weight in again.named_parameters() if weight.requires_grad] == \
        [name for name, weight in model.named_parameters() if weight.requires_grad]
    save_model(tmp_path / "twice", again, tokenizer)  # as a resumed run does: the base is still named
    assert lora.base_of(str(tmp_path / "twice")) == base
    assert torch.equal(logits(models.load(str(tmp_path / "twice"), "float32", OPTIONS)[0]), logits(model))
    whole, _ = models.load(str(folder), "float32")
    torch.testing.assert_close(logits(whole), logits(model), rtol=0, atol=1e-5)
    assert not torch.equal(logits(whole), logits(models.load(base, "float32")[0]))
    plain, _ = models.load(base, "float32")
    assert whole.state_dict().keys() == plain.state_dict().keys(), "an ordinary model"
    assert all(weight.requires_grad for weight in whole.parameters())
    save_model(tmp_path / "whole", whole, tokenizer)
    assert torch.equal(logits(models.load(str(tmp_path / "whole"), "float32")[0]), logits(whole))


def test_saving_and_loading_ask_no_server(base, tmp_path, tokenizer, monkeypatch):
    def refuse(*_):
        raise AssertionError("a server was asked")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    model, _ = models.load(base, "float32", OPTIONS)
    model.peft_config["default"].base_model_name_or_path = "embedded"
    save_model(tmp_path / "checkpoint", model, tokenizer)
    settings = json.loads((tmp_path / "checkpoint" / lora.CONFIG).read_text())
    assert settings["base_model_name_or_path"] == "embedded"
    lora.attach(tiny_model(len(tokenizer)), str(tmp_path / "checkpoint"), OPTIONS)


def test_peft_itself_opens_a_saved_adapter(base, tmp_path, tokenizer):
    from peft import PeftModel

    model = adapted(models.load(base, "float32")[0])
    save_model(tmp_path / "checkpoint", model, tokenizer)
    theirs = PeftModel.from_pretrained(models.load(base, "float32")[0], str(tmp_path / "checkpoint"))
    assert torch.equal(logits(theirs), logits(model))


def test_adapters_of_16_bit_weights_are_float32(base):
    model, _ = models.load(base, "bfloat16", OPTIONS)
    assert {weight.dtype for weight in model.parameters() if weight.requires_grad} == {torch.float32}
    assert model.model.layers[0].mlp.up_proj.get_base_layer().weight.dtype == torch.bfloat16
    assert logits(model).isfinite().all()


def test_adapters_beside_16_bit_weights_are_loaded_as_they_are_and_merged_by_one_rounding(base, tmp_path, tokenizer):
    model = adapted(models.load(base, "bfloat16")[0])
    model.peft_config["default"].base_model_name_or_path = base
    save_model(tmp_path / "checkpoint", model, tokenizer)
    again, _ = models.load(str(tmp_path / "checkpoint"), "bfloat16", OPTIONS)
    for (name, weight), other in zip(model.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(weight, other), name
    merged = models.load(str(tmp_path / "checkpoint"), "bfloat16")[0].model.layers[1].mlp.up_proj.weight
    layer = model.model.layers[1].mlp.up_proj
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    exact = layer.get_base_layer().weight.float() + 8 / 4 * b @ a
    assert torch.equal(merged, exact.bfloat16()) and not torch.equal(merged, layer.get_base_layer().weight)


def test_chosen_layers_get_adapters_and_others_do_not(base):
    model, _ = models.load(base, "float32", replace(OPTIONS, targets=("q_proj", "mlp.up_proj")))
    layers = {name.split(".lora_")[0].rpartition(".")[2] for name, weight in model.named_parameters()
              if weight.requires_grad}
    assert layers == {"q_proj", "up_proj"}


@pytest.mark.parametrize("target", ["query", "lm_head", "embed_tokens", "proj"])
def test_a_target_that_is_no_linear_layer_is_named(base, target):
    with pytest.raises(InputError, match=f"model.lora.targets has '{target}'.*it has q_proj, k_proj"):
        models.load(base, "float32", replace(OPTIONS, targets=("q_proj", target)))


def test_adapters_that_do_not_fit_are_refused_in_one_line(base, tmp_path, tokenizer):
    folder = tmp_path / "checkpoint"
    save_model(folder, models.load(base, "float32", OPTIONS)[0], tokenizer)

    def refused(match: str, options: LoraConfig = OPTIONS) -> None:
        with pytest.raises(InputError, match=match) as caught:
            models.load(str(folder), "float32", options)
        assert "\n" not in str(caught.value)

    refused("its adapter has rank 4 and alpha 8.*model.lora has 2 and 8.0", LoraConfig(rank=2, alpha=8.0))
    settings = json.loads((folder / lora.CONFIG).read_text())
    weights = (folder / lora.WEIGHTS).read_bytes()
    for changes, match in (({"base_model_name_or_path": None}, "does not name the base model"),
                           ({"base_model_name_or_path": "/no/such"}, "no such folder"),
                           ({"lora_dropout": 0.1}, "only plain LoRA"), ({"peft_type": "P_TUNING"}, "only plain LoRA"),
                           ({"target_modules": ["q_proj"]}, "its adapter cannot be loaded: it does not fit")):
        (folder / lora.CONFIG).write_text(json.dumps(settings | changes))
        refused(match)
    (folder / lora.CONFIG).write_text(json.dumps(settings))
    (folder / lora.WEIGHTS).write_bytes(weights[:100])
    refused("cannot be loaded")
    (folder / lora.WEIGHTS).unlink()
    refused("cannot be loaded")
    (folder / lora.CONFIG).write_text("{")
    refused("line 1: not valid JSON")
