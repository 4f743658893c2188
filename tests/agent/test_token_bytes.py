"""Token bytes: whatever the text, the bytes of its tokens are the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.agent.token_bytes import TokenBytes, gpt2_alphabet
from serl.errors import InputError
from tests.models import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
TOKEN_BYTES = TokenBytes(TOKENIZER)


@given(st.text(st.characters(blacklist_categories=("Cs",)), max_size=60))
def test_bytes_of_the_ids_are_the_bytes_of_the_text(text):
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert TOKEN_BYTES.join(ids) == text.encode()


def test_a_character_that_straddles_two_tokens_is_split_between_them():
    ids = TOKENIZER.encode("é", add_special_tokens=False)
    assert [TOKEN_BYTES.of(index) for index in ids] == [b"\xc3", b"\xa9"]


def test_tags_and_chat_tokens_are_single_tokens_with_their_own_text():
    for text in ("<sql>", "</solution>", "<|im_end|>", "<hindsight>"):
        (index,) = TOKENIZER.encode(text, add_special_tokens=False)
        assert TOKEN_BYTES.of(index) == text.encode()


def test_ids_beyond_the_vocabulary_stand_for_no_bytes():
    assert TOKEN_BYTES.of(len(TOKENIZER) + 5) == b""


def test_the_alphabet_is_a_bijection_with_all_bytes():
    assert sorted(gpt2_alphabet().values()) == list(range(256))


def test_sentencepiece_pieces_and_byte_fallback():
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<unk>": 0, "\u2581SELECT": 1, "<0xC3>": 2, "<0xA9>": 3, "\u2581": 4}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, unk_token="<unk>"))
    backend.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    token_bytes = TokenBytes(PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>"))
    assert token_bytes.join([1, 2, 3]) == " SELECTé".encode()


def test_a_tokenizer_without_exact_bytes_is_refused():
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    wordpiece = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    with pytest.raises(InputError, match="neither byte-level BPE nor SentencePiece"):
        TokenBytes(PreTrainedTokenizerFast(tokenizer_object=wordpiece, unk_token="[UNK]"))
