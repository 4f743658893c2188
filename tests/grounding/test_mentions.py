"""What is looked up for a question."""

import time

import pytest

from grounding.mentions import find_mentions, find_spans


def texts(question: str, evidence: str = "", limit: int = 100) -> list[str]:
    return [mention.text for mention in find_mentions(question, evidence, limit)]


def test_quotations_of_every_kind_come_first_and_keep_their_apostrophes():
    found = texts("""Who knows "Big Ben", 'O'Hare Field', “New Deal” and the `School Type`?""")
    assert found[:4] == ["Big Ben", "O'Hare Field", "New Deal", "School Type"]


def test_an_apostrophe_is_no_quotation():
    assert not any("whose" in text for text in texts("List the driver's race whose team's car won")[:1])


def test_capitalized_spans_reach_over_connectors_but_not_over_and():
    found = texts("Is the University of California in France and Germany?")
    assert found[:3] == ["University of California", "France", "Germany"]


def test_ngrams_do_not_start_or_end_in_a_stop_word():
    found = texts("how many of the open races in wet weather")
    assert "open races in" not in found
    assert {"open", "races", "wet", "weather", "open races", "wet weather", "races in wet"} <= set(found)


def test_evidence_is_searched_and_like_patterns_lose_their_signs():
    assert "Hey" in texts("Which song?", "title LIKE '%Hey%'")


def test_mentions_are_distinct_after_folding_and_bounded():
    assert texts("in France, FRANCE or france") == ["France", "FRANCE or france"]
    assert len(texts(" ".join(f"word{i}" for i in range(100)), limit=7)) == 7


def test_a_question_of_stop_words_or_nothing_has_no_mentions():
    assert texts("how many are there?") == [] and texts("") == []


def test_capital_abbreviations_are_no_stop_words():
    assert "US" in texts("companies in the US") and "us" not in texts("tell us")


def test_mentions_say_what_they_look_like():
    kinds = {m.text: m.kind for m in find_mentions("Did 'Joe' visit Oslo in 2014 by train?", "", 100)}
    assert [kinds[text] for text in ("Joe", "Oslo", "2014", "train")] == ["quoted", "capitalized", "number", "words"]


def test_spans_keep_stop_words_punctuation_and_case_and_read_number_words():
    spans = {span.folded: span for span in find_spans("Is Fast As a Shark by J. Doe's five stars?", "")}
    assert {"fast as a shark", "j. doe", "doe's five", "5"} <= set(spans)
    assert spans["5"].text == "five" and spans["j. doe"].kind == "capitalized"
    assert not {"is", "a", "by"} & set(spans)


@pytest.mark.parametrize("text", ["“", "‘", "`", '"', "'", "'a ", "a'", "[", "a.", "(“‘'\"`"])
def test_long_rows_of_signs_take_no_longer_than_long_texts(text):
    start = time.perf_counter()
    find_mentions(text * (60_000 // len(text)), "", 32)
    find_spans(text * (60_000 // len(text)), "")
    assert time.perf_counter() - start < 10  # a search to the end from every sign takes minutes


def test_halves_of_surrogate_pairs_and_texts_longer_than_any_value_are_no_mentions():
    mentions = (*find_mentions("caf\udce9 \ud800Bar", "'\udfff'", 32), *find_spans("caf\udce9 \ud800Bar", ""))
    assert {"caf", "bar"} <= {mention.folded for mention in mentions}
    assert all(mention.text.encode() for mention in mentions)
    long = "".join(chr(0x4E00 + i) for i in range(600))
    assert find_mentions(f"'{long}' and {long}", "", 32) == find_spans(long, "") == ()
