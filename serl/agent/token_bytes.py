"""The bytes that each token id stands for, read from the tokenizer's vocabulary.

Offsets in sampled text must come from the tokens themselves: decoding a prefix of ids and measuring its
length is wrong as soon as a character straddles two tokens. Two families cover the models in use:
byte-level BPE (GPT-2's printable alphabet: Qwen, Llama 3, SmolLM2, the embedded model) and
SentencePiece with byte fallback (Gemma, Llama 2: U+2581 for a space, <0x0A> for a byte).
"""

import json
import re

from serl.errors import InputError

_BYTE_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def gpt2_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in character of each byte, reversed: character -> byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {chr(byte): byte for byte in printable}
    missing = [byte for byte in range(256) if byte not in printable]
    alphabet.update({chr(256 + index): byte for index, byte in enumerate(missing)})
    return alphabet


class TokenBytes:
    """`TokenBytes(tokenizer).of(id)` is the token's bytes; `join(ids)` the bytes of a sequence."""

    def __init__(self, tokenizer) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise InputError(f"tokenizer {tokenizer.name_or_path}: only fast tokenizers (tokenizer.json) "
                             "give the bytes of each token")
        decoder = json.dumps(json.loads(backend.to_str()).get("decoder"))
        self._byte_level = '"ByteLevel"' in decoder
        if not self._byte_level and '"ByteFallback"' not in decoder:
            raise InputError(f"tokenizer {tokenizer.name_or_path}: neither byte-level BPE nor SentencePiece "
                             "with byte fallback, so token offsets cannot be exact")
        self._alphabet = gpt2_alphabet()
        # SentencePiece's other added tokens, as Gemma's runs of spaces, are spelled like the rest of its vocabulary.
        self._added = {index: token.content.encode() for index, token in tokenizer.added_tokens_decoder.items()
                       if self._byte_level or token.special}
        self._pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        self._cache: dict[int, bytes] = {}

    def of(self, token_id: int) -> bytes:
        """Bytes of one id; ids beyond the tokenizer (padding rows of a model's head) stand for none."""
        if token_id not in self._cache:
            self._cache[token_id] = self._convert(token_id)
        return self._cache[token_id]

    def join(self, ids: list[int]) -> bytes:
        return b"".join(self.of(index) for index in ids)

    def _convert(self, token_id: int) -> bytes:
        if token_id in self._added:
            return self._added[token_id]
        piece = self._pieces[token_id] if token_id < len(self._pieces) else None
        if piece is None:
            return b""
        if self._byte_level:
            return bytes(self._alphabet[character] for character in piece)
        fallback = _BYTE_FALLBACK.fullmatch(piece)
        return bytes([int(fallback[1], 16)]) if fallback else piece.replace("\u2581", " ").encode()
