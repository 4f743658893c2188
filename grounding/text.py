"""Plain string work shared by mentions, retrieval, links and rendering: folding, words, stems, trigrams, cuts."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_WORD = re.compile(r"\w+(?:['’.&/\-]\w+)*")
_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_NUMBER_LIKE = re.compile(r"[\d\s.,:;/+\-–%$€£#()]*\Z")

STOPWORDS = frozenset(
    """a about above after all also am an and any are as at be been before being below between both but by can could
    did do does done each every find for from get give had has have having he her hers him his how i if in into is it
    its list many me more most much my no nor not of off on only or other our out over please return same she show
    so some such tell than that the their theirs them then there these they this those through to too under until up
    us use very was we were what whats when where whether which while who whom whose why will with within without
    would you your refers refer means mean value values respectively""".split()
)


def fold(text: str) -> str:
    """Text with case, Unicode width and composition, and runs of white space taken out of the comparison.

    >>> fold("  ＮＥＷ  York ")
    'new york'
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def well_formed(text: str) -> str:
    """The text with halves of surrogate pairs, which no encoding holds, replaced.

    >>> well_formed("caf\\udce9")
    'caf\ufffd'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def words(text: str) -> list[str]:
    """Words in order, inner apostrophes, dots, hyphens kept.

    >>> words("Is K-12 in St. John's?")
    ['Is', 'K-12', 'in', 'St', "John's"]
    """
    return _WORD.findall(text)


def is_number_like(text: str) -> bool:
    """Whether text has no letters: numbers, dates, phone numbers, which no sentence encoder tells apart.

    >>> is_number_like("2,014-05-01"), is_number_like("K-12")
    (True, False)
    """
    return _NUMBER_LIKE.match(text) is not None


def stem(word: str) -> str:
    """A lower-case word without its commonest English endings; meant for comparing, not for reading.

    >>> [stem(w) for w in ("Cities", "classes", "singers", "address", "closed", "opening", "it's")]
    ['city', 'class', 'singer', 'address', 'clos', 'open', 'it']
    """
    word = fold(word).replace("’", "'").removesuffix("'s")
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    for ending, shortest in (("ing", 6), ("ed", 5)):
        if len(word) >= shortest and word.endswith(ending):
            return word[: -len(ending)]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


@lru_cache(maxsize=100_000)  # the names and descriptions of a schema come again with every question
def content_stems(text: str) -> tuple[str, ...]:
    """Stems of a text's words without stop words; compound words count whole and in parts."""
    found = []
    for word in words(text):
        word = word.removesuffix("'s").removesuffix("’s")
        for part in dict.fromkeys((word, *name_parts(word))):
            if part.casefold() not in STOPWORDS and (len(part) > 1 or part == word):
                found.append(stem(part))
    return tuple(dict.fromkeys(found))


def name_parts(name: str) -> list[str]:
    """A column or table name in parts, split at anything but letters and digits and at camel case.

    >>> name_parts("AvgSATScore_2014 (Y/N)")
    ['Avg', 'SAT', 'Score', '2014', 'Y', 'N']
    """
    return _NAME_PART.findall(name)


def holds_words(text: str, words: str) -> bool:
    """Whether the words stand in the text just so, not as a part of longer words.

    A regular expression would be compiled anew for each of a question's hundreds of candidates.

    >>> holds_words("In New York, NY", "NY"), holds_words("In NYC", "NY"), holds_words("ANY NY", "NY")
    (True, False, True)
    """
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        if not _is_word_character(text[start - 1 : start]) and not _is_word_character(text[end : end + 1]):
            return True
        start = text.find(words, start + 1)
    return False


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


@lru_cache(maxsize=100_000)
def name_stems(name: str) -> frozenset[str]:
    """Stems of a name's parts."""
    return frozenset(stem(part) for part in name_parts(name))


def trigrams(folded: str) -> frozenset[str]:
    """The sets of three neighbouring characters, as SQLite's trigram tokenizer cuts them; empty below three."""
    return frozenset(folded[i : i + 3] for i in range(len(folded) - 2))


def dice(left: frozenset[str], right: frozenset[str]) -> float:
    """Overlap of two sets, 2|A∩B| / (|A|+|B|), 0 to 1."""
    return 2 * len(left & right) / (len(left) + len(right)) if left and right else 0.0


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, an ellipsis among them where any are cut off; no user-perceived character is parted.

    >>> cut("abcdef", 4), cut("abc\u0301d", 3) == "ab…", cut("ab", 2)
    ('abc…', True, 'ab')
    """
    if len(text) <= limit:
        return text
    kept = text[: max(0, limit - 1)]
    end = len(kept)
    while end and _is_one_character(text, end):
        end -= 1
    # Marks without end on one letter are parted nevertheless.
    return kept[: end or len(kept)].rstrip() + "…"


def _is_one_character(text: str, place: int) -> bool:
    """Whether the characters before and at a place belong together: the rules GB3 to GB13 of Unicode's UAX 29, without
    the conjuncts of Indic scripts and the few prepended marks."""
    before, after = text[place - 1], text[place]
    if after.isascii():
        return before == "\r" and after == "\n"
    if after in "\u200c\u200d" or unicodedata.category(after)[0] == "M" or "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    if before == "\u200d":
        return unicodedata.category(after)[0] == "S"  # emoji
    if _is_regional(before) and _is_regional(after):
        run = 1
        while run < place and _is_regional(text[place - run - 1]):
            run += 1
        return run % 2 == 1
    if "\u1100" <= before <= "\u115f":  # the parts of a Korean syllable
        return "\u1100" <= after <= "\u11ff" or "\uac00" <= after <= "\ud7a3"
    return "\u1160" <= after <= "\u11ff" and ("\u1160" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3")


def _is_regional(character: str) -> bool:
    """Two of these are a flag."""
    return "\U0001f1e6" <= character <= "\U0001f1ff"
