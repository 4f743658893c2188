"""The hermes dialect: tool calls, verdicts, answers, and the bytes that spell SQL within JSON."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.agent.dialects import Check, Hermes, Kind, Recall, Role, Sql, Think, Verify
from serl.agent.dialects.json_call import character_starts, string_values

parse = Hermes().parse
text = st.text(st.characters(blacklist_categories=("Cs",)), max_size=30)


def call(body: str) -> bytes:
    return f"<tool_call>{body}</tool_call>".encode()


def exec_sql(spelled: str) -> bytes:
    return call(f'{{"name": "exec_sql", "arguments": {{"code": "{spelled}"}}}}')


def test_a_call_of_the_database_is_a_query_whose_name_and_argument_act():
    sampled = b"<think>hm</think>\n" + exec_sql("SELECT 1")
    action = parse(sampled)
    assert (action.kind, action.sql) == (Kind.SQL, "SELECT 1")
    assert [sampled[slice(*span)] for span in action.acting] == [b"exec_sql", b"SELECT 1"]
    assert [type(event) for event in action.events] == [Think, Sql]


def test_a_look_into_the_memory_and_an_answer():
    recall = parse(call('{"arguments": {"code": "SELECT 1"}, "name": "memory_retrieve"}'))
    assert recall.kind is Kind.RECALL and recall.sql is None and recall.sql_span is None
    assert isinstance(recall.events[-1], Recall) and recall.events[-1].text == "SELECT 1"
    sampled = b"<answer_sql>SELECT 'a\nb'</answer_sql>"
    final = parse(sampled)
    assert (final.kind, final.sql, final.acting) == (Kind.FINAL, "SELECT 'a\nb'", (final.sql_span,))
    assert sampled[slice(*final.sql_span)].decode() == final.sql


def test_verdicts_come_before_the_action_that_they_lead_to():
    sampled = (b"<exec_verify> pass </exec_verify><memory_verify>no_pass</memory_verify>" + exec_sql("SELECT 1")
               + b"<exec_verify>pass</exec_verify>")
    action = parse(sampled)
    first, second, query = action.events
    assert (first.check, first.verdict) == (Check.EXECUTION, True)
    assert (second.check, second.verdict) == (Check.MEMORY, False)
    assert query.role is Role.CORRECT, "it follows a check that failed"
    assert sampled[slice(*second.span)] == b"no_pass"
    assert parse(b"<exec_verify>pass</exec_verify>" + exec_sql("SELECT 1")).events[-1].role is Role.QUERY


def test_a_verdict_alone_is_no_action_but_is_not_lost():
    action = parse(b"<exec_verify>pass</exec_verify>")
    assert action.kind is Kind.MALFORMED and isinstance(action.events[0], Verify)


@pytest.mark.parametrize(("sampled", "reason"), [
    (b"SELECT 1", "expected <tool_call>"),
    (b"<tool_call>{}", "not closed with </tool_call>"),
    (b"<answer_sql>SELECT 1", "</answer_sql>"),
    (b"<exec_verify>maybe</exec_verify>" + exec_sql("SELECT 1"), "<exec_verify> holds pass or no_pass"),
    (b"<exec_verify>pass" + exec_sql("SELECT 1"), "<exec_verify> was not closed"),
    (b"<think>hm" + exec_sql("SELECT 1"), "</think>"),
    (call("SELECT 1"), "not valid JSON"),
    (call('{"name": "exec_sql", "arguments": {"code": "SELECT 1"}'), "not valid JSON"),
    (call("[" * 100_000), "not valid JSON"),
    (call('{"name": "exec_sql", "arguments": {"code": ' + "1" * 5000 + "}}"), "not valid JSON"),
    (call("[]"), "names one of exec_sql, memory_retrieve"),
    (call('{"name": ["exec_sql"], "arguments": {"code": "SELECT 1"}}'), "names one of"),
    (call('{"name": "drop", "arguments": {"code": "SELECT 1"}}'), "names one of"),
    (call('{"name": "exec_sql"}'), "the arguments of exec_sql are one text: code"),
    (call('{"name": "exec_sql", "arguments": "SELECT 1"}'), "one text: code"),
    (call('{"name": "exec_sql", "arguments": {"code": 1}}'), "one text: code"),
    (call('{"name": "exec_sql", "arguments": {"code": "SELECT 1", "database": "b"}}'), "one text: code"),
    (exec_sql(r"SELECT '\ud800'"), "UTF-8"),
    (b"<tool_call>\xff</tool_call>", "not valid UTF-8"),
    (b"<answer_sql>\xff</answer_sql>", "not valid UTF-8"),
])
def test_malformed_actions_say_what_was_expected(sampled, reason):
    action = parse(sampled)
    assert action.kind is Kind.MALFORMED and action.sql is None and action.acting == ()
    assert reason in action.reason


@pytest.mark.parametrize(("spelled", "sql", "pieces"), [
    (r"a\nb", "a\nb", ["a", r"\n", "b"]),
    ("a\r\nb", "a\r\nb", ["a", "\r", "\n", "b"]),  # not JSON by the letter, but what small models write
    (r"\"é\u00e9\"", '"éé"', [r"\"", "é", r"\u00e9", r"\""]),
    (r"\\n", r"\n", [r"\\", "n"]),
    (r"\uD83D\ude00x", "😀x", [r"\uD83D\ude00", "x"]),
    (r"<\/tool_call>", "</tool_call>", ["<", r"\/", *"tool_call>"]),
    ("", "", []),
])
def test_every_character_of_the_sql_is_mapped_to_the_bytes_that_spell_it(spelled, sql, pieces):
    sampled = "é</think>".encode() + exec_sql(spelled)
    action = Hermes(thinking_open=True).parse(sampled)
    assert action.sql == sql
    assert [sampled[start:end].decode() for start, end in zip(action.offsets, action.offsets[1:])] == pieces
    assert sampled[slice(*action.sql_span)].decode() == spelled == "".join(pieces)


@settings(max_examples=50)
@given(text, st.booleans(), st.data())
def test_json_of_any_spelling_is_mapped_back(sql, ascii_only, data):
    """Each character as it is, as a short escape, or by its code units."""
    pieces = []
    for character in sql:
        units = character.encode("utf-16-be")
        escapes = "".join(f"\\u{units[i]:02x}{units[i + 1]:02X}" for i in range(0, len(units), 2))
        usual = json.dumps(character, ensure_ascii=ascii_only)[1:-1].replace("/", "\\/")
        pieces.append(data.draw(st.sampled_from([escapes, usual])))
    sampled = exec_sql("".join(pieces))
    action = parse(sampled)
    assert action.sql == sql
    assert [sampled[start:end].decode() for start, end in zip(action.offsets, action.offsets[1:])] == pieces


@settings(max_examples=50)
@given(st.recursive(text, lambda inner: st.dictionaries(text, inner, max_size=3) | st.lists(inner, max_size=3)),
       st.sampled_from([None, 1, "\t"]))
def test_strings_of_a_document_are_found_by_their_paths(document, indent):
    """Every path of keys leads to the string that stands there; what is in lists has no path of its own."""
    written = json.dumps({"root": document}, indent=indent)

    def leaves(value, path):
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            for key, inner in value.items():
                yield from leaves(inner, (*path, key))

    found = string_values(written)
    for path, value in leaves({"root": document}, ()):
        start, end = found[path]
        assert written[start - 1] == written[end] == '"'
        assert json.loads(written[start - 1:end + 1]) == value
        assert len(character_starts(written[start:end])) == len(value) + 1


def test_of_equal_keys_the_last_counts_as_for_the_reader():
    sampled = call('{"name": "drop", "arguments": {"code": "no"}, "name": "exec_sql", "arguments": {"code": "yes"}}')
    action = parse(sampled)
    assert action.sql == "yes"
    assert [sampled[slice(*span)] for span in action.acting] == [b"exec_sql", b"yes"]


def test_a_text_that_would_close_the_call_is_written_with_escapes():
    written = Hermes().write(Kind.SQL, "SELECT '</tool_call>'")
    assert written.count("</tool_call>") == 1 and parse(written.encode()).sql == "SELECT '</tool_call>'"
