"""Does what a token writes stand in the hindsight text that the teacher read?

A teacher may raise a token's probability only because it can copy it: an engine message that quotes a wrong column
name makes that name likelier. So Δ of tokens that could be copied is reported apart from the rest.

A token counts as shown if the identifier or literal that it is part of stands in the text as a whole word, in upper or
lower case, or if its own text does and holds a letter or digit: a full stop in the text makes no full stop shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from serl.hindsight.diagnostics.lexemes import Lexeme, TokenKind


def tokens_shown(pieces: Sequence[bytes], words: Sequence[Lexeme | None], text: str) -> list[bool]:
    """Which tokens stand in the hindsight `text`; `pieces` are their bytes, `words` the words that they write."""
    text = text.lower()
    return [_shown(piece.decode("utf-8", errors="replace").strip().lower(), word, text)
            for piece, word in zip(pieces, words, strict=True)]


def _shown(own: str, word: Lexeme | None, text: str) -> bool:
    if word is not None and word.kind in (TokenKind.IDENTIFIER, TokenKind.LITERAL) and stands_in(word.text, text):
        return True
    return any(map(str.isalnum, own)) and stands_in(own, text)


@lru_cache(maxsize=16_384)
def stands_in(word: str, text: str) -> bool:
    """Whether `word` occurs in `text` with no letter, digit or underscore of the text glued to it.

    >>> stands_in("id", "no such column: paid"), stands_in("id", "no such column: t.id")
    (False, True)
    """
    start = text.find(word) if word else -1
    while start >= 0:
        end = start + len(word)
        glued_before = start > 0 and _is_word(text[start - 1]) and _is_word(word[0])
        glued_after = end < len(text) and _is_word(text[end]) and _is_word(word[-1])
        if not glued_before and not glued_after:
            return True
        start = text.find(word, start + 1)
    return False


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
