"""Checkpoints in plain `transformers` and peft, in a process without serl: the same log-probs, tokenizer, template."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from serl import model as models
from serl.cli import main
from serl.config import LoraConfig
from serl.errors import InputError
from serl.train.checkpoint import save
from serl.train.engine import TorchEngine, constant_with_warmup
from serl.train.scoring import Tail, logprobs, score
from tests.generate.vllm.conftest import small_model
from tests.models import tiny_tokenizer

IDS = [5, 9, 30, 7, 12, 40, 300, 77, 5]
LORA = LoraConfig(rank=4, alpha=8.0)
MESSAGES = [{"role": "user", "content": "how many cities are there?"}]

READER = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ids, messages, *folders = map(json.loads, sys.argv[1:])
found = {}
for folder in folders:
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder, dtype="auto"), AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        logps = model(torch.tensor([ids])).logits[0, :-1].float().log_softmax(-1)
    found[folder] = {
        "logprobs": logps[range(len(ids) - 1), ids[1:]].tolist(), "dtype": str(model.dtype),
        "eos": tokenizer.eos_token_id, "ends": model.generation_config.eos_token_id,
        "prompt": tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True)["input_ids"]}
assert not any(name.partition(".")[0] in ("serl", "grounding") for name in sys.modules)
json.dump(found, sys.stdout)
"""


@dataclass(frozen=True)
class Saved:
    """A checkpoint of a policy that has been trained for two steps, and the log-probs that the trainer gave."""

    folder: Path
    dtype: str
    logprobs: list[float]


def trained(start: Path, dtype: str, lora: LoraConfig, folder: Path, tokenizer) -> Saved:
    model, _ = models.load(str(start), dtype, lora)
    engine = TorchEngine(model, 3e-3, 0.0, 1.0, constant_with_warmup(0))
    for _ in range(2):
        engine.zero_grad()
        engine.backward(-torch.cat(logprobs(model, [Tail(IDS, 1, 0)], 1.0, True)).sum())
        engine.step()
    path = save(folder, 2, model, tokenizer, {"engine": engine.state_dict()}, keep=1)
    return Saved(path, dtype, score(model, [Tail(IDS, 1, 0)], 100, 1.0, False)[0].tolist())


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def checkpoints(tokenizer, tmp_path_factory) -> dict[str, Saved]:
    """By "tied full float32" and so on; the exported adapters by "tied merged float32"."""
    root, found = tmp_path_factory.mktemp("checkpoints"), {}
    for tying in ("tied", "untied"):
        start = root / tying
        small_model(len(tokenizer), 0, tying == "tied").save_pretrained(start)
        tokenizer.save_pretrained(start)
        for kind, lora, dtype in (("full", LoraConfig(), "float32"), ("full", LoraConfig(), "bfloat16"),
                                  ("lora", LORA, "float32")):
            name = f"{tying} {kind} {dtype}"
            found[name] = trained(start, dtype, lora, root / name.replace(" ", "_"), tokenizer)
        adapter, merged = found[f"{tying} lora float32"], root / f"{tying}_merged"
        assert main(["export", "--checkpoint", str(adapter.folder), "--out", str(merged)]) == 0
        found[f"{tying} merged float32"] = Saved(merged, "float32", adapter.logprobs)
    return found


@pytest.fixture(scope="module")
def elsewhere(checkpoints) -> dict[str, dict]:
    """What a process without serl finds in each folder."""
    arguments = [json.dumps(value) for value in
                 (IDS, MESSAGES, *(str(saved.folder) for saved in checkpoints.values()))]
    result = subprocess.run([sys.executable, "-c", READER, *arguments], capture_output=True, text=True, check=True,
                            env=os.environ | {"HF_HUB_OFFLINE": "1"})
    found = json.loads(result.stdout)
    return {name: found[str(saved.folder)] for name, saved in checkpoints.items()}


@pytest.mark.parametrize("tying", ["tied", "untied"])
@pytest.mark.parametrize("kind, tolerance", [("full float32", 1e-4), ("lora float32", 1e-4), ("merged float32", 1e-4),
                                             ("full bfloat16", 1e-6)])  # of the same operations on the same numbers
def test_a_checkpoint_gives_the_same_log_probs_without_serl(checkpoints, elsewhere, tokenizer, tying, kind, tolerance):
    saved, found = checkpoints[f"{tying} {kind}"], elsewhere[f"{tying} {kind}"]
    assert found["logprobs"] == pytest.approx(saved.logprobs, abs=tolerance)
    assert found["dtype"] == f"torch.{saved.dtype}"
    assert found["eos"] == tokenizer.eos_token_id and found["ends"] == 2
    assert found["prompt"] == tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True)["input_ids"]


def test_training_moved_every_policy(checkpoints):
    assert len({tuple(saved.logprobs) for saved in checkpoints.values()}) == 6  # merged ones are their adapters


@pytest.mark.parametrize("stored, loaded, tolerance", [("float32", "bfloat16", 0.2), ("bfloat16", "float32", 0.2)])
def test_weights_are_read_in_the_precision_that_is_asked_for(checkpoints, stored, loaded, tolerance):
    saved = checkpoints[f"untied full {stored}"]
    model, _ = models.load(str(saved.folder), loaded)
    assert {weight.dtype for weight in model.parameters()} == {getattr(torch, loaded)}
    found = score(model, [Tail(IDS, 1, 0)], 100, 1.0, False)[0].tolist()
    assert found == pytest.approx(saved.logprobs, abs=tolerance) and found != saved.logprobs


def test_an_export_in_bfloat16_holds_rounded_weights_and_no_state(checkpoints, tmp_path, capsys):
    saved, out = checkpoints["tied full float32"], tmp_path / "half"
    (saved.folder / "selector.json").write_text('{"learnt": 1}')
    assert main(["export", "--checkpoint", str(saved.folder), "--out", str(out), "--dtype", "bfloat16", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    whole, half = (models.load(str(folder), "float32")[0] for folder in (saved.folder, out))
    assert told == {"model": str(out), "dtype": "bfloat16", "parameters": whole.num_parameters(), "merged": False}
    for one, other in zip(whole.parameters(), half.parameters(), strict=True):
        assert torch.equal(one.bfloat16().float(), other)
    assert not (out / "state.pt").exists() and (out / "chat_template.jinja").is_file()
    assert (out / "selector.json").read_text() == '{"learnt": 1}'
    with pytest.raises(SystemExit):
        main(["export", "--checkpoint", str(saved.folder)])
    assert main(["export", "--checkpoint", str(saved.folder), "--out", str(out)]) == 2
    assert "it exists" in capsys.readouterr().err


def test_a_folder_that_lacks_weights_is_refused_instead_of_filled_with_random_ones(checkpoints, tmp_path, tokenizer):
    from safetensors.torch import load_file, save_file

    whole = checkpoints["untied full float32"].folder
    weights = load_file(whole / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((whole / name).read_bytes())
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="no values for 1 parameters, the first is model.layers.1.mlp.up_proj.weight"):
        models.load(str(tmp_path), "float32")
