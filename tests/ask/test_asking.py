"""Asking, from the question to what is shown: turns, votes, conversations."""

import io
import json

import pytest

from serl.ask.answer import selector
from serl.ask.asker import Asker, Listener, Sampling
from serl.ask.conversation import ask, converse
from serl.ask.question import Asked
from serl.ask.terminal import Terminal, wants_color
from serl.errors import InputError
from tests.ask.made import TOKENIZER, Policy, make_databases, opened


@pytest.fixture
def database(tmp_path):
    return make_databases(tmp_path, 1)["db0"]


@pytest.fixture
def bench(tmp_path):
    policy = Policy()
    with opened(tmp_path / "cache", policy) as bench:
        bench.policy = policy
        yield bench


def shown(bench, asked: Asked, sampling: Sampling, color: bool = False) -> tuple[str, object]:
    out = io.StringIO()
    answer = ask(Asker(bench, sampling), asked, Terminal(out, color, bench.env.token_bytes, sampling))
    return out.getvalue(), answer


GREEDY = Sampling(1, select="first")


def test_turns_are_shown_as_they_come_and_the_answer_last(bench, database):
    text, answer = shown(bench, Asked("echo hi", database), GREEDY)
    assert text.splitlines()[:2] == ["turn 0", "> SELECT 'hi', name FROM who"]
    assert text.splitlines()[2:5] == ["  'hi'  name", "  ----  ----", "  hi    db0"]
    assert text.splitlines()[5].startswith("  1 row, ") and text.splitlines()[6] == ""
    assert text.splitlines()[7] == "SELECT 'hi', name FROM who" and text.splitlines()[10] == "  hi    db0"
    assert answer.answered and answer.outcome.rows == (("hi", "db0"),) and not bench.policy.turns


def test_colour_paints_and_changes_no_text(bench, database):
    import re
    plain, _ = shown(bench, Asked("echo hi", database), GREEDY)
    painted, _ = shown(bench, Asked("echo hi", database), GREEDY, color=True)
    assert "\x1b[2mturn 0\x1b[0m" in painted and "\x1b[1;34mSELECT\x1b[0m" in painted
    assert "\x1b[32m'hi'\x1b[0m" in painted
    untimed = re.compile(r"\d+ ms")
    assert untimed.sub("", re.sub(r"\x1b\[[\d;]*m", "", painted)) == untimed.sub("", plain)


def test_what_model_and_database_say_does_not_move_the_cursor(bench, database):
    text, answer = shown(bench, Asked("run SELECT char(27) || '[2J' AS a, char(8238) || 'x'", database), GREEDY)
    assert answer.answered and not set("\x1b\u202e") & set(text) and "\ufffd[2J" in text


def test_no_color_and_dumb_terminals_are_respected():
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True
    assert wants_color(Tty(), {}) and wants_color(Tty(), {"NO_COLOR": ""})
    assert not wants_color(Tty(), {"NO_COLOR": "1"}) and not wants_color(Tty(), {"TERM": "dumb"})
    assert not wants_color(io.StringIO(), {})


def test_the_result_that_most_samples_have_wins_and_is_explained(bench, database):
    text, answer = shown(bench, Asked("differ 3 2 x 2.0", database), Sampling(4))
    assert answer.chosen == 1 and answer.outcome.rows == ((2,),)
    assert [vote.members for vote in answer.votes] == [(1, 3), (0,), (2,)]
    assert "3/4 SELECT x  error" in text and "1/4 SELECT 3  1 row" in text
    lines = text.splitlines()
    assert "*   2 of 4  1 row: 2" in lines and "    1 of 4  1 row: 3" in lines
    assert "    1 of 4  no result: cannot be chosen by votes" in lines and "  chosen by vote: sample 2" in lines


def test_an_answer_as_data(bench, database):
    answer = Asker(bench, Sampling(2, rows=5)).answer(Asked("rows", database, "e\ud800"), Listener())
    document = json.loads(json.dumps(answer.to_json(bench.env.token_bytes), ensure_ascii=False).encode())
    assert document["evidence"] == "e\ufffd" and document["database"] == "db0.sqlite"
    assert document["result"]["row_count"] == 300 and len(document["result"]["rows"]) == 5
    first, last = document["turns"]
    assert (first["kind"], first["thinking"], first["result"]["row_count"]) == ("sql", "turn 0", 300)
    assert (last["kind"], last["sql"], document["why_not"]) == ("final", "SELECT name FROM who, many", None)
    (vote,) = document["selection"].pop("votes")
    assert document["selection"] == {"by": "vote", "samples": 2, "chosen": 0}
    assert (vote["votes"], vote["samples"], len(vote["result"]["rows"])) == (2, [0, 1], 3)
    assert all(len(turn.outcome.rows) == 5 for sample in answer.samples for turn in sample.trajectory.turns)


@pytest.mark.parametrize(("question", "why"), [
    ("nonsense", "the agent gave no final SQL"), ("run SELECT nope", "ended with error: no such column: nope"),
    ("run DELETE FROM who", "ended with denied: DELETE is not allowed"), ("slow one", "ended with timeout")])
def test_without_an_answer_it_is_said_why(bench, database, question, why):
    before = database.read_bytes()
    text, answer = shown(bench, Asked(question, database), GREEDY)
    assert not answer.answered and why in answer.why_not and answer.why_not in text
    assert database.read_bytes() == before


def test_a_follow_up_is_asked_with_what_came_before(bench, database):
    out = io.StringIO()
    terminal = Terminal(out, False, bench.env.token_bytes, GREEDY)
    lines = iter(["echo one\n", "\n", "why " * 2000, "echo two", "/new", "echo three", "/quit", "echo four"])
    assert not converse(Asker(bench, GREEDY), Asked("", database), lines, terminal)
    first, second, third = (TOKENIZER.decode(ids) for ids in bench.policy.prompts)
    assert "earlier question" not in first + third
    assert "earlier question: echo one its SQL: SELECT 'one', name FROM who\nQuestion: echo two" in second
    assert "the question is too long" in out.getvalue()


def test_selectors_that_need_gold_are_refused():
    with pytest.raises(InputError, match="oracle needs gold.*choose one of first, vote, soft, logprob"):
        selector("oracle")
    with pytest.raises(InputError, match="luck is of no use here"):
        selector("luck")
