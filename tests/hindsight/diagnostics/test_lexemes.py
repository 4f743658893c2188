"""Words of SQL and their kinds, and the tokens that write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.hindsight.diagnostics.lexemes import Lexeme, TokenKind, lexemes, lexemes_of_tokens

LETTERS = {TokenKind.KEYWORD: "k", TokenKind.IDENTIFIER: "i", TokenKind.LITERAL: "l", TokenKind.OPERATOR: "o"}


def picture(sql: str) -> str:
    """The kind of each byte, a letter each; a blank where there is no word."""
    shown = [" "] * len(sql.encode())
    for word in lexemes(sql):
        shown[word.start:word.end] = LETTERS[word.kind] * (word.end - word.start)
    return "".join(shown)


@pytest.mark.parametrize(("sql", "kinds"), [
    ("SELECT T1.name, 1.5 FROM t AS T1", "kkkkkk iioiiiio lll kkkk i kk ii"),
    ("select count(*) from t where a<>'x''y'", "kkkkkk kkkkkooo kkkk i kkkkk ioollllll"),
    ('SELECT "a b" FROM [c d] GROUP  BY `e`', "kkkkkk iiiii kkkk iiiii kkkkkkkkk iii"),
    # Words that are keywords elsewhere, and the language's own where they stand as names.
    ("SELECT date, t.desc, text FROM t", "kkkkkk iiiio ioiiiio iiii kkkk i"),
    ("SELECT CAST(text AS REAL) AS real", "kkkkkk kkkkoiiii kk kkkko kk iiii"),
    ("SELECT CAST(a AS VARCHAR(20))", "kkkkkk kkkkoi kk kkkkkkkolloo"),
    ("SELECT (SELECT a AS text)", "kkkkkk okkkkkk i kk iiiio"),
    ("SELECT NULL -- note\n, x'0a' || TRUE", "kkkkkk kkkk        \no lllll oo kkkk".replace("\n", " ")),
    ("SELECT 'é' AS é", "kkkkkk llll kk ii"),  # four bytes, two bytes
    # What a model may write: a quote that nobody closed, nothing, and what no tokenizer reads.
    ("SELECT a FROM t WHERE b = 'Li", "kkkkkk i kkkk i kkkkk i o lll"),
    ('SELECT a FROM "t', "kkkkkk i kkkk ii"),
    ("SELECT /* a", "kkkkkk     "),
    ("", ""),
    ("SELECT x'zz'", "            "),
])
def test_every_byte_has_the_kind_of_its_word(sql, kinds):
    assert picture(sql) == kinds


def test_words_are_without_quotes_and_in_lower_case():
    assert [word.text for word in lexemes("SELECT \"Order Date\" = 'O''Hare' + T1.ID")] == [
        "select", "order date", "=", "o'hare", "+", "t1", ".", "id"]


WORDS = (Lexeme(TokenKind.IDENTIFIER, 0, 2, "ab"), Lexeme(TokenKind.OPERATOR, 2, 3, "."),
         Lexeme(TokenKind.IDENTIFIER, 3, 4, "c"), Lexeme(TokenKind.LITERAL, 5, 8, "xyz"))


@pytest.mark.parametrize(("lengths", "offset", "expected"), [
    ([2, 1, 1, 1, 3], 0, ["ab", ".", "c", None, "xyz"]),
    ([1, 2, 0, 1], 0, ["ab", "ab", None, "c"]),  # b. is as much of ab as of the full stop; a name comes first
    ([4, 4], 0, ["ab", "xyz"]),
    ([7, 1, 2], 5, ["ab", ".", "c"]),  # <sql>ab . c_
    ([20], 5, ["xyz"]),
    ([3, 5], 3, [None, "ab"]),
])
def test_a_token_belongs_to_the_word_with_most_of_its_bytes(lengths, offset, expected):
    found = lexemes_of_tokens(lengths, WORDS, offset)
    assert [word and word.text for word in found] == expected


@given(st.text(alphabet="abS '\"`[]().,=-/*\n1é", max_size=20), st.lists(st.integers(1, 5), max_size=12))
def test_any_text_has_words_in_order_within_it_and_tokens_only_words_that_they_touch(sql, lengths):
    words = lexemes(sql)
    places = [0, *(place for word in words for place in (word.start, word.end)), len(sql.encode())]
    assert places == sorted(places)
    start = 0
    for length, word in zip(lengths, lexemes_of_tokens(lengths, words, 0)):
        touched = [each for each in words if each.start < start + length and each.end > start]
        assert (word in touched) if touched else word is None
        start += length
