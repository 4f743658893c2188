"""Engines for tests: real vLLM on a CPU, small and compiling nothing."""

import dataclasses
import importlib.util
from pathlib import Path

import pytest
import torch

from serl.agent.dialects import DIALECTS
from serl.agent.token_bytes import TokenBytes
from serl.config import Config, VLLMConfig
from serl.generate.stopping import StopRule
from serl.generate.vllm.build import make_engines
from serl.model import eos_ids
from tests.models import tiny_tokenizer

# Without vLLM's engine tests say so and are skipped; `make engines` installs it, and CI does.
needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: make engines")

# The tokens of one pass are few enough for several prompts not to fit, as in a run.
MODEST = VLLMConfig(kv_cache_gib=0.25, max_sequences=32, threads=1, arguments=("--max-num-batched-tokens", "256"))


def small_model(vocabulary: int, seed: int, tied: bool):
    """A two-layer Qwen3 of a head size that vLLM's attention on a CPU knows."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(vocab_size=vocabulary, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=512,
                         tie_word_embeddings=tied, bos_token_id=None, eos_token_id=2, pad_token_id=0,
                         initializer_range=0.2)
    return Qwen3ForCausalLM(config).eval()


def stop_rule(model, tokenizer) -> StopRule:
    """Of the xml dialect."""
    return StopRule(TokenBytes(tokenizer).of, frozenset(eos_ids(model, tokenizer)), ("</sql>", "</solution>"),
                    DIALECTS["xml"].is_complete)


def engines_of(model, tokenizer, folder: Path, engine: str = "vllm", **options):
    """Engines for `model`, as a run would have them."""
    config = Config()
    vllm = dataclasses.replace(MODEST, folder=str(folder), **options)
    config = dataclasses.replace(config, seed=1, model=dataclasses.replace(config.model, max_length=256),
                                 rollout=dataclasses.replace(config.rollout, engine=engine, vllm=vllm))
    return make_engines(config, model, tokenizer, stop_rule(model, tokenizer))


@pytest.fixture(scope="session")
def tokenizer():
    return tiny_tokenizer()
