"""Reasoning links: what a model is asked, what of its answers is taken, and what happens where there is none."""

import json

import pytest

from grounding import Grounder, GroundingConfig, Request
from grounding.errors import InputError
from grounding.grounded import Links
from grounding.reasoning import Endpoint, Reasoner, reasoner
from grounding.reasoning.parse import Malformed, parse_links
from grounding.schema import Database
from tests.grounding.chat_server import chat_server

CUT = GroundingConfig(keep_all_columns=0, keep_table_columns=0)
GOOD = json.dumps({"tables": ["driver"], "projection": ["driver.name"], "filter": ["result.points"], "join": []})


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(reasoner, "PAUSE_S", 0.0)
    monkeypatch.setenv("no_proxy", "*")


def ground(racing, tmp_path, url, question="xyzzy", timeout_s=5.0, budget=8192, folder=None):
    asker = Reasoner(Endpoint(url, "m", timeout_s=timeout_s), "m", folder, budget, workers=2)
    return Grounder(tmp_path / "index", "none", CUT, reasoner=asker).ground(Request(question, racing))


def whys(grounded):
    return {table.name: {column.name: column.why for column in table.columns} for table in grounded.tables}


def test_what_a_model_names_is_kept_with_its_keys_and_says_so(racing, tmp_path):
    with chat_server(GOOD) as server:
        grounded = ground(racing, tmp_path, server.url, "Who is the best of the Italian Grand Prix?")
    kept = whys(grounded)
    assert kept["driver"] == {"name": ("reasoning",), "id": ("primary key", "foreign key", "join path")}
    assert kept["result"]["points"] == ("reasoning",)
    assert kept["race"]["name"] == ("value",), "value links stay beside those of the model"
    assert grounded.reasoned is True and grounded.warnings == ()


def test_the_prompt_holds_question_evidence_whole_schema_and_matched_values(racing, tmp_path):
    with chat_server(GOOD) as server:
        asker = Reasoner(Endpoint(server.url + "/", "some model"))
        request = Request("Who won in Monaco?", racing, "to win is to have most points")
        Grounder(tmp_path, "none", CUT, reasoner=asker).ground(request)
        (asked,) = server.asked
    assert asked["path"] == "/v1/chat/completions" and asked["model"] == "some model" and asked["temperature"] == 0
    system, user = asked["messages"]
    assert [system["role"], user["role"]] == ["system", "user"]
    assert all(role in system["content"] for role in ("tables", "projection", "filter", "join", "aggregate"))
    assert user["content"].splitlines()[-2:] == ["Evidence: to win is to have most points",
                                                 "Question: Who won in Monaco?"]
    assert "driver(id int pk, name text, nationality text)" in user["content"]
    assert "country text = 'Monaco'" in user["content"]


def test_the_prompt_marks_no_value_that_is_listed_by_rank_alone(racing, tmp_path):
    with chat_server(GOOD) as server:
        config = GroundingConfig(min_score=0.0)
        grounder = Grounder(tmp_path, "none", config, reasoner=Reasoner(Endpoint(server.url, "m")))
        grounded = grounder.ground(Request("Monaco Grand Prix and the British", racing))
        prompt = server.asked[0]["messages"][1]["content"]
    assert {"Monaco Grand Prix", "Circuit de Monaco"} <= {match.value for match in grounded.values}
    assert "name text = 'Monaco Grand Prix', " in prompt and "Circuit de Monaco" not in prompt


@pytest.mark.parametrize(("wrong", "reason"), [
    ("the tables are driver and result", "not one JSON object"),
    ('{"tables": ["driver"]} is all', "not one JSON object"),
    ("[]", "not a JSON object"),
    ('{"tables": "driver"}', "not a list of names"),
    ('{"tables": [["driver"]]}', "not a list of names"),
    ('{"tables": ["driver"], "columns": []}', "key 'columns'"),
    ('{"tables": []}', "names no table"),
    ('{"tables": ["driver"], "filter": ["driver.nationalty"]}', "did you mean 'driver.nationality'"),
    ('{"tables": ["driver.name"]}', "'driver.name'"),
    ('{"tables": ["driver"], "filter": ["name"]}', "'name'"),
])
def test_a_wrong_answer_is_asked_again_with_the_reason(racing, tmp_path, wrong, reason):
    with chat_server(wrong, GOOD) as server:
        grounded = ground(racing, tmp_path, server.url)
        first, second = (asked["messages"] for asked in server.asked)
    assert grounded.reasoned is True and grounded.warnings == () and "driver" in whys(grounded)
    assert second[:2] == first and second[2] == {"role": "assistant", "content": wrong}
    assert second[3]["role"] == "user" and reason in second[3]["content"]


@pytest.mark.parametrize(("replies", "reasons"), [
    (["no", "neither"], ["not one JSON object"]),
    (['{"tables": ["nowhere"]}', '{"tables": ["race"], "join": ["race.nothing"]}'], ["'nowhere'", "'race.nothing'"]),
    ([500, 503], ["HTTP 500: {\"error\": \"out of\\n order\"}", "HTTP 503"]),
    ([b"<html>", b'{"choices": []}'], ["no chat completion", "IndexError"]),
    ([b'{"choices": [{"message": {"content": null}}]}', 429], ["holds no text", "HTTP 429"]),
    ([0.6, 0.6], ["no answer within 0.2 s"]),
    ([None, "no"], ["the connection broke", "not one JSON object"]),
])
def test_without_a_usable_answer_the_other_links_are_there_and_it_is_said(racing, tmp_path, replies, reasons):
    question = "nationality of drivers"
    plain = Grounder(tmp_path / "index", "none", CUT).ground(Request(question, racing))
    with chat_server(*replies) as server:
        grounded = ground(racing, tmp_path, server.url, question, timeout_s=0.2)
        assert len(server.asked) == 2
    assert grounded.tables == plain.tables and plain.reasoned is None and grounded.reasoned is False
    (warning,) = grounded.warnings
    assert warning.startswith("no reasoning links: ") and all(reason in warning for reason in reasons)
    assert grounded.to_json() == plain.to_json() | {"warnings": [warning]}


def test_a_failed_request_is_sent_again_as_it_was(racing, tmp_path):
    with chat_server(500, GOOD) as server:
        assert ground(racing, tmp_path, server.url).reasoned is True
        assert server.asked[0] == server.asked[1]


@pytest.mark.parametrize(("reply", "said"), [(401, "refuses the key"), (404, "no such path or model")])
def test_a_server_that_answers_nobody_ends_the_work(racing, tmp_path, reply, said):
    with chat_server(reply) as server, pytest.raises(InputError, match=said):
        ground(racing, tmp_path, server.url)


def test_a_server_that_is_not_there_is_one_line(racing, tmp_path):
    with chat_server() as server:
        pass
    with pytest.raises(InputError, match="cannot be reached.*is the server running") as caught:
        ground(racing, tmp_path, server.url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host", "http://", "http://host:port/v1"])
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(InputError, match="no URL"):
        Endpoint(url, "m")


def test_the_key_comes_from_the_environment(racing, tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "abc")
    with chat_server(GOOD, GOOD) as server:
        Endpoint(server.url, "m", "SOME_KEY")([])
        Endpoint(server.url, "m")([])
        assert server.headers[0]["Authorization"] == "Bearer abc" and "Authorization" not in server.headers[1]
    with pytest.raises(InputError, match="NO_SUCH_KEY"):
        Endpoint(server.url, "m", "NO_SUCH_KEY")


def test_answers_are_kept_by_model_and_prompt(racing, tmp_path):
    with chat_server("no", GOOD) as server:
        first = ground(racing, tmp_path, server.url, folder=tmp_path / "answers")
        again = ground(racing, tmp_path, server.url, folder=tmp_path / "answers")
        assert first == again and len(server.asked) == 2, "a wrong answer is kept too: it would come again"
        server.replies = [GOOD]
        ground(racing, tmp_path, server.url, "another question", folder=tmp_path / "answers")
        server.replies = [GOOD]
        other = Reasoner(Endpoint(server.url, "n"), "n", tmp_path / "answers")
        Grounder(tmp_path / "index", "none", CUT, reasoner=other).ground(Request("xyzzy", racing))
        assert len(server.asked) == 4


def test_a_failed_request_is_not_kept(racing, tmp_path):
    with chat_server(500, 500, GOOD) as server:
        assert ground(racing, tmp_path, server.url, folder=tmp_path / "answers").reasoned is False
        assert ground(racing, tmp_path, server.url, folder=tmp_path / "answers").reasoned is True


def test_a_store_that_cannot_be_used_is_one_line(tmp_path):
    (tmp_path / "m.sqlite").write_text("no database " * 100)
    with pytest.raises(InputError, match="m.sqlite"):
        Reasoner(lambda messages: "", "m", tmp_path)
    with pytest.raises(InputError, match="give Reasoner a model"):
        Reasoner(lambda messages: "", folder=tmp_path)


def test_many_questions_are_asked_at_once_and_answered_in_order(racing, tmp_path):
    def answer(messages):
        wanted = messages[1]["content"].split()[-1]
        return json.dumps({"tables": [wanted]})

    names = ["driver", "race", "circuit", "nowhere", "result"] * 3
    with chat_server(answer) as server:
        asker = Reasoner(Endpoint(server.url, "m"), workers=5)
        many = Grounder(tmp_path, "none", CUT, reasoner=asker).ground_many([Request(name, racing) for name in names])
        assert len(server.asked) == 18, "wrong answers are asked again"
    assert [grounded.reasoned for grounded in many] == [name != "nowhere" for name in names]
    assert [grounded.tables[0].name for grounded in many if grounded.reasoned] == [n for n in names if n != "nowhere"]


def test_tables_that_do_not_fit_the_prompt_are_left_out_by_score_and_it_is_said(racing, tmp_path):
    with chat_server(GOOD) as server:
        grounded = ground(racing, tmp_path, server.url, "nationality of drivers", budget=45)
        user = server.asked[0]["messages"][1]["content"]
    assert user.startswith("driver(") and "race(" not in user
    assert "the likeliest 2 of 4 tables" in user
    assert grounded.reasoned is True and ["2 of 4 tables" in line for line in grounded.warnings] == [True]


def test_columns_of_one_large_table_that_do_not_fit_are_left_out_and_it_is_said(make_database, tmp_path):
    columns = ", ".join(f"measurement_{i} REAL" for i in range(50))
    path = make_database(f"CREATE TABLE log (id INTEGER PRIMARY KEY, colour TEXT, {columns});")
    answers = []
    asker = Reasoner(lambda messages: answers.append(messages) or '{"tables": ["log"]}', budget=60)
    grounded = Grounder(tmp_path, "none", CUT, reasoner=asker).ground(Request("Which colour?", path))
    (prompt,) = answers
    assert "colour text" in prompt[1]["content"] and "Some columns did not fit" in prompt[1]["content"]
    assert "1 of 1 tables" in grounded.warnings[0] and "of 52 columns" in grounded.warnings[0]


def test_answers_in_a_fence_behind_thoughts_and_with_quoted_names_are_read(make_database):
    path = make_database('CREATE TABLE "Order List" (id INTEGER, "Order Date" TEXT, "a.b" TEXT, "<|x|>" TEXT);')
    database = Database.read(path)
    columns = [f'{table}.{column}' for table, column in (
        ("Order List", '"Order Date"'), ('"order list"', "`ID`"), ("[Order List]", "a.b"), ("Order List", "< |x| >"))]
    answer = f"<think>{{hm}}</think>\n```json\n{json.dumps({'projection': columns, 'tables': []})}\n```\n"
    assert parse_links(answer, database) == Links(
        frozenset({"order list"}),
        frozenset({("order list", name) for name in ("order date", "id", "a.b", "<|x|>")}))
    with pytest.raises(Malformed, match="names no table"):
        parse_links("{}", database)


def test_oracle_mode_and_a_model_do_not_go_together(tmp_path):
    with pytest.raises(InputError, match="oracle"):
        Grounder(tmp_path, "none", GroundingConfig(mode="oracle"), reasoner=Reasoner(lambda messages: ""))
