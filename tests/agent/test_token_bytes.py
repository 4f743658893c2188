"""Token bytes: whatever the text, the bytes of its tokens are the text."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from serl.agent.token_bytes import TokenBytes, gpt2_alphabet
from serl.errors import InputError
from tests.agent.templates import MODELS
from tests.models import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
TOKEN_BYTES = TokenBytes(TOKENIZER)
TOKENIZERS = {name: model.tokenizer for name, model in MODELS.items()}
BYTES = {name: TokenBytes(tokenizer) for name, tokenizer in TOKENIZERS.items()}
every_tokenizer = pytest.mark.parametrize("name", MODELS)
texts = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\u2581") | st.sampled_from(" \n"),
                max_size=60)  # U+2581 is SentencePiece's own spelling of a space, and read back as one


@every_tokenizer
@settings(max_examples=30)
@given(text=texts)
def test_bytes_of_the_ids_are_the_bytes_of_the_text(name, text):
    ids = TOKENIZERS[name].encode(text, add_special_tokens=False)
    before = b" " if name == "mistral" and text else b""  # which its tokenizer puts before every text
    assert BYTES[name].join(ids) == before + text.encode()


@every_tokenizer
@settings(max_examples=30)
@given(data=st.data())
def test_bytes_of_any_ids_are_what_the_tokenizer_decodes_them_to(name, data):
    tokenizer = TOKENIZERS[name]
    added = st.sampled_from(sorted(tokenizer.added_tokens_decoder))
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1) | added, max_size=20))
    try:
        text = BYTES[name].join(ids).decode()
    except UnicodeDecodeError:
        assume(False)
    assert tokenizer.decode(ids) == text


def test_a_run_of_spaces_that_is_an_added_token_stands_for_spaces():
    """As Gemma's tokenizer has them; with U+2581 in their place the SQL of an action would be another one."""
    ids = TOKENIZERS["gemma"].encode("SELECT  name", add_special_tokens=False)
    (run,) = {TOKENIZERS["gemma"].convert_tokens_to_ids("\u2581\u2581")} & set(ids)
    assert run in TOKENIZERS["gemma"].added_tokens_decoder and BYTES["gemma"].of(run) == b"  "


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
