"""Many questions at a time: each gets its own answer, nobody waits for ever, and nothing is left behind."""

import time
from concurrent.futures import wait

import pytest

from serl.ask.asker import Listener, Sampling
from serl.ask.question import Asked, QuestionError
from serl.errors import WorkFailed
from serl.serve.engine import Engine, Full
from tests.ask.made import SQL_S, Policy, make_databases, opened

LONG_S = 60.0


class Bench:
    """An engine around a policy."""

    def __init__(self, tmp_path, **options) -> None:
        self.policy = Policy()
        self.databases = make_databases(tmp_path, 3)
        self.opened = opened(tmp_path / "cache", self.policy, workers=options.pop("workers", 2))
        self.options = {"sampling": Sampling(1, select="first", rows=10), "at_once": 8, "waiting": 32,
                        "timeout_s": LONG_S} | options

    def __enter__(self) -> "Bench":
        self.engine = Engine(self.opened.__enter__(), **self.options)
        return self

    def __exit__(self, *error) -> None:
        self.engine.close()
        self.opened.__exit__(*error)
        assert not self.policy.pending and not self.policy.turns, "nothing is left with the generator"

    def ask(self, question: str, name: str = "db0", **more):
        return self.engine.submit(Asked(question, self.databases[name]), Listener(), **more)


def eventually(holds, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_every_answer_belongs_to_its_question_and_database(tmp_path):
    with Bench(tmp_path) as bench:
        tickets = [(f"m{number}", name, bench.ask(f"echo m{number}", name))
                   for number in range(12) for name in bench.databases]
        for mark, name, ticket in tickets:
            answer = ticket.answer.result(LONG_S)
            assert answer.outcome.rows == ((mark, name),)
            assert [turn.outcome.rows for turn in answer.trajectory.turns] == [((mark, name),)] * 2
        assert len(bench.engine) == 0


def test_samples_of_a_question_stay_together(tmp_path):
    with Bench(tmp_path, sampling=Sampling(3), at_once=2) as bench:
        tickets = [bench.ask(f"differ {n} {n + 1} {n + 1}") for n in range(6)]
        for n, ticket in enumerate(tickets):
            answer = ticket.answer.result(LONG_S)
            assert answer.chosen == 1 and answer.outcome.rows == ((n + 1,),)


def test_who_comes_when_it_is_full_is_told_so_and_there_is_room_again(tmp_path):
    with Bench(tmp_path, at_once=2, waiting=1) as bench:
        held = [bench.ask("never") for _ in range(3)]
        with pytest.raises(Full):
            bench.ask("echo me")
        for ticket in held[:2]:
            ticket.cancel()
        eventually(lambda: len(bench.engine) == 1)
        assert bench.ask("echo me").answer.result(LONG_S).outcome.rows == (("me", "db0"),)
        for ticket in held:
            ticket.cancel()
        eventually(lambda: len(bench.engine) == 0)


def test_time_runs_out_for_one_and_not_for_others(tmp_path):
    with Bench(tmp_path, timeout_s=3.0) as bench:
        late, good = bench.ask("never"), bench.ask("echo me")
        assert good.answer.result(LONG_S).answered
        assert late.answer.result(LONG_S).is_late and not late.answer.result().answered


def test_samples_that_are_there_in_time_are_chosen_from(tmp_path):
    with Bench(tmp_path, sampling=Sampling(2), timeout_s=3.0) as bench:
        bench.policy.script = lambda question, turn, sample: "<solution>SELECT 1</solution>" if sample else None
        answer = bench.ask("one of two").answer.result(LONG_S)
        assert answer.chosen == 1 and answer.answered and not answer.is_late


def test_what_is_cancelled_gives_its_query_back(tmp_path):
    with Bench(tmp_path) as bench:
        ticket = bench.ask("slow one")
        eventually(lambda: bench.engine._running.queries)
        ticket.cancel()
        with pytest.raises(TimeoutError):
            ticket.answer.result(LONG_S)
        assert len(bench.engine) == 0 and not bench.engine._running.queries


def test_a_slow_database_delays_only_those_who_ask_it(tmp_path):
    with Bench(tmp_path) as bench:
        bench.ask("echo warm", "db1").answer.result(LONG_S)
        slow = [bench.ask(f"slow {n}", "db0") for n in range(3)]
        eventually(lambda: bench.engine._running.queries)
        start = time.monotonic()
        quick = [bench.ask(f"echo {n}", "db1") for n in range(2)]
        assert all(ticket.answer.result(LONG_S).answered for ticket in quick)
        assert time.monotonic() - start < 2 * SQL_S and sum(ticket.answer.done() for ticket in slow) < 3
        wait([ticket.answer for ticket in slow], LONG_S)
        assert {ticket.answer.result().outcome.status for ticket in slow} == {"timeout"}


def test_a_question_that_cannot_be_asked_harms_no_other(tmp_path):
    with Bench(tmp_path) as bench:
        bad, good = bench.ask("why " * 1000), bench.ask("echo me")
        with pytest.raises(QuestionError, match="too long"):
            bad.answer.result(LONG_S)
        with pytest.raises(QuestionError, match="too long"):
            bad.ready.result(LONG_S)
        assert good.answer.result(LONG_S).answered and len(bench.engine) == 0


def test_a_failure_of_the_engine_is_not_the_end(tmp_path, capsys):
    with Bench(tmp_path) as bench:
        under_way = bench.ask("never")
        eventually(lambda: bench.policy.pending)
        bench.policy.fail = True
        with pytest.raises(WorkFailed, match="its log says why"):
            under_way.answer.result(LONG_S)
        assert bench.ask("echo me").answer.result(LONG_S).answered
    assert "the engine is gone" in capsys.readouterr().err


def test_closing_ends_what_is_under_way(tmp_path):
    with Bench(tmp_path) as bench:
        ticket = bench.ask("never")
        eventually(lambda: bench.policy.pending)
    with pytest.raises(WorkFailed, match="shutting down"):
        ticket.answer.result(0)
    with pytest.raises(WorkFailed, match="shutting down"):
        bench.ask("echo me")


def test_only_some_rows_are_kept(tmp_path):
    with Bench(tmp_path) as bench:
        answer = bench.ask("rows").answer.result(LONG_S)
        assert [(len(turn.outcome.rows), turn.outcome.row_count) for turn in answer.trajectory.turns] == [(10, 300)] * 2
