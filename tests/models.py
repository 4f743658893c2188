"""Small random models and tokenizers for tests: the embedded architecture, in milliseconds."""

import torch

from serl.embedded import make_tokenizer

TEXTS = ["SELECT name FROM city WHERE country = 'Peru'", "how many cities are there in each country?",
         "city(id int pk, name text, country text, people int)", "3 rows\nname | people\nLima | 10"]


def tiny_tokenizer(vocabulary: int = 400):
    """Byte-level BPE with the embedded model's chat template."""
    return make_tokenizer(TEXTS * 4, vocabulary)


def tiny_model(vocabulary: int, seed: int = 0, dtype: torch.dtype = torch.float32, tied: bool = True):
    """A two-layer Qwen3 with grouped-query attention and random weights, in eval mode."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=512,
                         tie_word_embeddings=tied, bos_token_id=None, eos_token_id=2, pad_token_id=0,
                         initializer_range=0.2)
    return Qwen3ForCausalLM(config).to(dtype).eval()
