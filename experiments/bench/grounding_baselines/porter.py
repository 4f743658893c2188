"""The Porter stemmer (M. F. Porter, An algorithm for suffix stripping, Program 14(3), 1980), which Lucene uses.

A word is [C](VC)^m[V] in runs of consonants and vowels; m is its measure. In each step the longest ending that fits
is replaced, if what is left of it meets the step's condition.
"""

from __future__ import annotations

import re
from functools import lru_cache

_STEP_2 = dict(pair.split(":") for pair in (
    "ational:ate tional:tion enci:ence anci:ance izer:ize abli:able alli:al entli:ent eli:e ousli:ous ization:ize "
    "ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble").split())
_STEP_3 = dict(pair.split(":") for pair in "icate:ic ative: alize:al iciti:ic ical:ic ful: ness:".split())
_STEP_4 = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize".split()
_VC = re.compile("v+c+")


@lru_cache(maxsize=1_000_000)  # a column's words come again and again
def porter_stem(word: str) -> str:
    """The stem of a lower-case word.

    >>> [porter_stem(word) for word in ("caresses", "ponies", "relational", "hopping", "singers")]
    ['caress', 'poni', 'relat', 'hop', 'singer']
    """
    if len(word) <= 2:
        return word
    word = _past_and_gerund(_plural(word))
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(_replace(word, _STEP_2), _STEP_3)
    ending = max((ending for ending in _STEP_4 if word.endswith(ending)), key=len, default="")
    stem = word.removesuffix(ending)
    if _measure(stem) > 1 and (ending != "ion" or stem.endswith(("s", "t"))):
        word = stem
    return _final_e_and_l(word)


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past_and_gerund(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = next((ending for ending in ("ed", "ing") if word.endswith(ending)), None)
    stem = word.removesuffix(ending or "")
    if ending is None or "v" not in _shape(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if stem[-2:-1] == stem[-1:] and _shape(stem)[-1] == "c" and stem[-1] not in "lsz":
        return stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _ends_cvc(stem) else stem


def _replace(word: str, endings: dict[str, str]) -> str:
    ending = max((ending for ending in endings if word.endswith(ending)), key=len, default=None)
    if ending is None or _measure(word.removesuffix(ending)) == 0:
        return word
    return word.removesuffix(ending) + endings[ending]


def _final_e_and_l(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_cvc(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _shape(word: str) -> str:
    """c or v for each letter; y is a vowel behind a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    return len(_VC.findall(_shape(word)))


def _ends_cvc(word: str) -> bool:
    """Consonant, vowel, consonant other than w, x, y at the end: as in hop, not in snow."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"
