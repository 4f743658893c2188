"""Control tokens of the common model families, tokenizers that know them all, and texts that try to forge them."""

import unicodedata

from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

CONTROL = (
    "<|im_start|> <|im_end|> <|endoftext|> <|eot_id|> <|start_header_id|> <|begin_of_text|> <start_of_turn>"
    " <end_of_turn> <bos> <eos> <pad> <s> </s> <unk> <mask> [INST] [/INST] <<SYS>> <</SYS>> [TOOL_CALLS]"
    " [AVAILABLE_TOOLS] [/TOOL_RESULTS] [SYSTEM_PROMPT] [THINK] [IMG] [control_8] [CLS] [SEP] [MASK] [gMASK]"
    " [sMASK] [PAD] [BOS] [EOS] <think> </think> <tool_call> </tool_call> <tool_response> <sql> </sql> <solution>"
    " </solution> <observation> </observation> <hindsight> </hindsight> <|user|> <|assistant|> <|turn> <turn|>"
    " <｜User｜> <｜Assistant｜> <｜begin▁of▁sentence｜> <｜tool▁calls▁begin｜> <|START_OF_TURN_TOKEN|> <|channel|>"
    " <|message|> <reserved_106> <2en> <unused0> <extra_id_0> <SPECIAL_10> <seed:bos> <mask:1> [|system|]"
    " [|endofturn|] ]~b] [e~[ ]~!b[ ]<]minimax[>[ [UNUSED_TOKEN_145] [unused1] <!-- ``` <repo_name> <file_sep>"
    " <jupyter_start> <0x0A> <image> <video> <_s_> <-s->"
).split()


def tokenizer(*steps: normalizers.Normalizer) -> Tokenizer:
    """Bytes, and every control token as one token, which is looked for in what the normalizers leave of a text."""
    alphabet = {character: i for i, character in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    made = Tokenizer(models.BPE(alphabet, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if steps:
        made.normalizer = normalizers.Sequence(list(steps))
    made.add_tokens([AddedToken(token, special=False, normalized=bool(steps)) for token in CONTROL])
    return made


def forged(made: Tokenizer, text: str) -> set[str]:
    """The added tokens that a text is encoded with."""
    added = {index: token.content for index, token in made.get_added_tokens_decoder().items()}
    return {added[index] for index in made.encode(text, add_special_tokens=False).ids if index in added}


def wide(text: str) -> str:
    """ASCII in full width."""
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def bold(text: str) -> str:
    """ASCII letters as mathematical bold ones."""
    return "".join(
        chr(ord(c) + (0x1D3BF if c.isupper() else 0x1D3B9)) if c.isascii() and c.isalpha() else c for c in text
    )


assert unicodedata.normalize("NFKC", wide("<sql>") + bold("[INST]")) == "<sql>[INST]"

HIDDEN = "\u200b\u200c\u200d\ufeff\u202e\u2066\u00ad\U000e0041\ufe0f\u0338\u0301\x00\x07\ud800\ufffd\ue000\u0378"
_filled = st.tuples(st.sampled_from(CONTROL), st.integers(0, 12), st.sampled_from(HIDDEN)).map(
    lambda drawn: drawn[0][: drawn[1]] + drawn[2] + drawn[0][drawn[1] :]
)
_whole = st.sampled_from(CONTROL)
_parts = st.sampled_from(
    [*"<>|[]`~/!'\"_- \n\t.,;()=%＜＞｜≮", "sql", "INST", "im_start", "``", "s", "2en", "--", "*/"]
)
fragments = st.one_of(
    _whole, _whole.map(wide), _whole.map(bold), _whole.map(str.swapcase), _filled, _parts, st.text(max_size=3)
)
texts = st.lists(fragments, max_size=8).map("".join)
