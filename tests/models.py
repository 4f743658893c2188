"""Small random models and tokenizers for tests: the embedded architecture, in milliseconds."""

import json
from collections.abc import Sequence

import torch

from serl.embedded import make_tokenizer

TEXTS = ["SELECT name FROM city WHERE country = 'Peru'", "how many cities are there in each country?",
         "city(id int pk, name text, country text, people int)", "3 rows\nname | people\nLima | 10"]


def tiny_tokenizer(vocabulary: int = 400):
    """Byte-level BPE with the embedded model's chat template."""
    return make_tokenizer(TEXTS * 4, vocabulary)


def byte_level_tokenizer(special: Sequence[str], added: Sequence[str] = (), vocabulary: int = 400):
    """Byte-level BPE, as Qwen's and Llama 3's. The first `special` token ends messages; `added` ones are plain text."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(TEXTS * 4, trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=list(special), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    backend.add_tokens([AddedToken(token, special=False, normalized=False) for token in added])
    return _fast(backend, special[0])


def sentencepiece_tokenizer(special: Sequence[str], space_before: bool):
    """BPE over characters with byte fallback, as Gemma's, or with a space before every text, as Llama 2's.

    Gemma's names runs of spaces in its list of added tokens, too, in the spelling of its vocabulary.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, trainers

    spaces = normalizers.Replace(" ", "\u2581")
    learner = Tokenizer(models.BPE(unk_token="<unk>"))
    learner.normalizer = spaces
    learner.train_from_iterator(TEXTS * 4, trainers.BpeTrainer(
        vocab_size=200, special_tokens=["<unk>"], show_progress=False, max_token_length=6))
    trained = json.loads(learner.to_str())["model"]
    vocabulary = dict(trained["vocab"])
    for name in (f"<0x{byte:02X}>" for byte in range(256)):
        vocabulary[name] = len(vocabulary)
    run = "\u2581\u2581"
    vocabulary[run] = len(vocabulary)
    merges = [("\u2581", "\u2581"), *(tuple(pair) for pair in trained["merges"])]
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True, unk_token="<unk>"))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), spaces]) if space_before else spaces
    backend.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in ("<unk>", *special)])
    if not space_before:
        backend.add_tokens([AddedToken(run, normalized=False)])
    return _fast(backend, special[0])


def _fast(backend, eos: str):
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=eos, clean_up_tokenization_spaces=False)


def tiny_model(vocabulary: int, seed: int = 0, dtype: torch.dtype = torch.float32, tied: bool = True):
    """A two-layer Qwen3 with grouped-query attention and random weights, in eval mode."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=4096,
                         tie_word_embeddings=tied, bos_token_id=None, eos_token_id=2, pad_token_id=0,
                         initializer_range=0.2)
    return Qwen3ForCausalLM(config).to(dtype).eval()
