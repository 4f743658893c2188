"""What holds for every dialect: reading back what is written, where sampling stops, spans in order."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.agent.dialects import DIALECTS, TAGS, Dialect, Kind, Malformed, Written, of_record

ALL = [replace(dialect, thinking_open=opened) for dialect in DIALECTS.values() for opened in (False, True)]
KINDS = {"xml": (Kind.SQL, Kind.FINAL), "fence": (Kind.FINAL,), "hermes": (Kind.SQL, Kind.RECALL, Kind.FINAL)}
every_dialect = pytest.mark.parametrize("dialect", ALL, ids=lambda each: f"{each.name} {each.thinking_open}")

plain = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="<`"), max_size=40)
# Pieces that tags are made of and that may stand between them, cut at any place.
tags = st.sampled_from([f"<{slash}{tag}>" for tag in TAGS for slash in ("", "/")]).map(str.encode)
call = st.sampled_from([b'{"name": "exec_sql", "arguments": {"code": "', b'{"name": "memory_retrieve", "arguments": '
                        b'{"code": "', b'"}}', b"pass", b"no_pass", b"```sql\n", b"\n```", b"\\n", b"\\u00e9"])
noise = st.sampled_from([b" ", b"\r\n", b"SELECT 'x'", "größe".encode(), b"\xc3", b"\xff", b"<", b"<s", b"ql>", b"x"])
sampled_pieces = st.lists(tags | call | noise, max_size=14)


@every_dialect
@settings(max_examples=50)
@given(data=st.data(), text=plain, thinking=plain)
def test_what_is_written_is_parsed_back(dialect: Dialect, data, text, thinking):
    kind = data.draw(st.sampled_from(KINDS[dialect.name]))
    sampled = dialect.write(kind, text, thinking).encode()
    action = dialect.parse(sampled)
    last = action.events[-1]
    assert action.kind is kind and last.text == text
    if kind is not Kind.RECALL:
        assert action.sql == text and action.sql_span == last.span
    if kind is Kind.FINAL:
        assert sampled[slice(*last.span)] == text.encode()
    said = [sampled[slice(*event.span)].decode() for event in action.events[:-1]]
    assert said == ([thinking] if thinking or dialect.thinking_open else [])
    assert dialect.is_complete(sampled, 1)
    assert not any(dialect.is_complete(sampled[:count], 1) for count in range(len(sampled)))


@every_dialect
def test_thinking_that_would_end_itself_cannot_be_written(dialect):
    with pytest.raises(ValueError, match="cannot be written"):
        dialect.write(Kind.FINAL, "SELECT 1", "a</think>b" + dialect.write(Kind.FINAL, "SELECT 2"))


@every_dialect
@settings(max_examples=50)
@given(pieces=sampled_pieces)
def test_events_are_in_order_and_their_spans_nest(dialect: Dialect, pieces):
    sampled = b"".join(pieces)
    action = dialect.parse(sampled)
    assert action.events, "an action always says something"
    for event in action.events:
        assert 0 <= event.span[0] <= event.span[1] <= len(sampled)
        assert all(0 <= start <= end <= len(sampled) for start, end in event.acting)
    for before, after in zip(action.events, action.events[1:]):
        assert before.span[0] <= after.span[0]
        assert isinstance(after, Malformed) or before.span[1] <= after.span[0]
    last = action.events[-1]
    if isinstance(last, Written):
        assert (last.offsets[0], last.offsets[-1]) == last.span and len(last.offsets) == len(last.text) + 1
        assert list(last.offsets) == sorted(set(last.offsets))
    else:
        assert action.kind is Kind.MALFORMED and action.reason


@every_dialect
@settings(max_examples=50)
@given(pieces=sampled_pieces)
def test_the_form_faults_what_cannot_be_read_and_has_its_parts_in_order(dialect: Dialect, pieces):
    sampled = b"".join(pieces)
    action, form = dialect.parse(sampled), dialect.form(sampled)
    if action.kind is Kind.MALFORMED:
        assert form.fault == action.reason and form.fault
    elif not form.fault and action.sql is not None:
        assert form.sql == action.sql_span
        assert form.answer[0] <= form.sql[0] <= form.sql[1] <= form.answer[1]
        assert form.thinking is None or form.thinking[0] <= form.thinking[1] <= form.answer[0]


@every_dialect
@settings(max_examples=50)
@given(pieces=sampled_pieces, data=st.data())
def test_sampling_stops_at_the_first_closing_tag_outside_of_thinking(dialect: Dialect, pieces, data):
    """Whatever the tokens are: the same bytes cut at other places stop in the token that completes the same tag."""
    sampled = b"".join(pieces)
    ends = sorted({*data.draw(st.lists(st.integers(0, len(sampled)), max_size=8)), len(sampled)} - {0})
    after = dialect.after_thinking(sampled)
    closing = [] if after is None else [place + len(tag) for tag in dialect.stop_tags
                                        if (place := sampled.find(tag, after)) >= 0]
    start, stopped = 0, None
    for end in ends:
        if dialect.is_complete(sampled[:end], end - start):
            stopped = end
            break
        start = end
    assert stopped == (next(end for end in ends if end >= min(closing)) if closing else None)


@every_dialect
@settings(max_examples=50)
@given(pieces=sampled_pieces)
def test_what_acts_is_complete(dialect: Dialect, pieces):
    """Sampling would have stopped at every action that is read, so that nothing of it is missing."""
    sampled = b"".join(pieces)
    if dialect.parse(sampled).kind is not Kind.MALFORMED:
        assert dialect.is_complete(sampled, len(sampled))


def test_the_dialect_of_a_record_and_of_one_from_before_there_were_several():
    assert of_record({"dialect": "hermes", "thinking_open": True}) == replace(DIALECTS["hermes"], thinking_open=True)
    assert of_record({}) == DIALECTS["xml"]
