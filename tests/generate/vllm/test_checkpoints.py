"""Checkpoints in plain vLLM on a CPU, in a process without serl: the same log-probs as the trainer's."""

import json
import os
import subprocess
import sys

import pytest
import torch

from serl import model as models
from serl.cli import main
from serl.config import LoraConfig, VLLMConfig
from serl.generate.vllm.launch import environment
from serl.train.checkpoint import save_model
from serl.train.scoring import Tail, score
from tests.generate.vllm.conftest import needs_vllm, small_model

pytestmark = [pytest.mark.engine, needs_vllm, pytest.mark.timeout(900)]

IDS = [5, 9, 30, 7, 12, 40, 300, 77, 5]

READER = """
import json, sys
from vllm import LLM, SamplingParams, TokensPrompt

ids, dtypes = map(json.loads, sys.argv[2:])
found = {}
for folder, dtype in dtypes.items():
    engine = LLM(folder, dtype=dtype, enforce_eager=True, max_model_len=64, max_num_seqs=2,
                 kv_cache_memory_bytes=2**26, disable_log_stats=True)
    answer, = engine.generate(TokensPrompt(prompt_token_ids=ids), SamplingParams(max_tokens=1, prompt_logprobs=0),
                              use_tqdm=False)
    found[folder] = [entry[token].logprob for token, entry in zip(ids[1:], answer.prompt_logprobs[1:])]
    del engine
assert "serl" not in sys.modules
json.dump(found, open(sys.argv[1], "w"))
"""


def test_checkpoints_and_exported_adapters_give_the_trainers_log_probs(tokenizer, tmp_path):
    expected = {}

    def saved(name: str, model) -> str:
        folder = tmp_path / name
        save_model(folder, model, tokenizer)
        expected[str(folder)] = score(model, [Tail(IDS, 1, 0)], 100, 1.0, False)[0].tolist()
        return str(folder)

    tied = saved("tied", small_model(len(tokenizer), 0, tied=True))
    half = saved("half", small_model(len(tokenizer), 0, tied=True).bfloat16())
    base = saved("untied", small_model(len(tokenizer), 1, tied=False))
    adapted, _ = models.load(base, "float32", LoraConfig(rank=4))
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    adapter, merged = saved("adapter", adapted), str(tmp_path / "merged")
    assert main(["export", "--checkpoint", adapter, "--out", merged]) == 0
    expected[merged] = expected.pop(adapter)
    distance = max(abs(a - b) for a, b in zip(expected.pop(base), expected[merged]))
    assert distance > 0.1, "the adapter matters"

    # Its engines compute in its own process, one after the other.
    options = environment(VLLMConfig(threads=1), gpu=False) | {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    dtypes = {tied: "float32", half: "bfloat16", merged: "float32"}  # its own choice for float32 weights is bfloat16
    script, answers = tmp_path / "reader.py", tmp_path / "answers.json"
    script.write_text(READER, encoding="utf-8")
    subprocess.run([sys.executable, str(script), str(answers), json.dumps(IDS), json.dumps(dtypes)], check=True,
                   env=os.environ | options)
    found = json.loads(answers.read_text(encoding="utf-8"))
    for folder, tolerance in ((tied, 1e-4), (half, 0.1), (merged, 1e-4)):
        assert found[folder] == pytest.approx(expected[folder], abs=tolerance), folder
