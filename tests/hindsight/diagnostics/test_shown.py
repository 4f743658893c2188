"""Which tokens could have been copied from the hindsight text."""

import pytest

from serl.hindsight.diagnostics.lexemes import lexemes, lexemes_of_tokens
from serl.hindsight.diagnostics.shown import stands_in, tokens_shown


def shown(pieces: list[str], text: str) -> str:
    """The tokens that stand in `text`, marked with an x."""
    encoded = [piece.encode() for piece in pieces]
    words = lexemes_of_tokens(list(map(len, encoded)), lexemes("".join(pieces)), 0)
    return "".join("x" if each else "-" for each in tokens_shown(encoded, words, text))


@pytest.mark.parametrize(("pieces", "text", "expected"), [
    # All tokens of a name that the message quotes, and of no other.
    (["SELECT", " birth", "_", "day", ",", " name"], "error: no such column: birth_day", "-xxx--"),
    (["SELECT", " birth", "_", "day"], "birth | day", "-x-x"),  # these tokens stand there, the name does not
    (["SELECT", " Birth"], "BIRTH\n3", "-x"),
    (["SELECT", ' "', "Order", " Date", '"'], "order date\n2019", "-xxxx"),
    (["SELECT", " '", "Li", "ma", "'"], "name | people\nLima | 10", "-xxxx"),
    (["SELECT", " 10", " +", " 1"], "people\n10", "-x--"),
    # Keywords by their own text; punctuation never.
    (["SELECT", " count", "(", "*", ")", "."], "1 row\ncount(*)\n7.", "-x----"),
    (["SELECT", " id"], "error: no such column: paid", "--"),
    (["SELECT", " é"], "É", "-x"),
    (["SELECT", " id"], "", "--"),
])
def test_whole_words_of_the_text_are_shown(pieces, text, expected):
    assert shown(pieces, text) == expected


def test_a_word_with_signs_at_its_ends_needs_no_border_there():
    assert stands_in("-3", "x=-3") and stands_in("(a)", "f(a)") and not stands_in("3", "x=-34")
    assert stands_in("ab", "abc ab"), "a later place counts too"
