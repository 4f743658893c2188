"""Warm start, records and diagnostics in the other dialects: each takes it from the environment or the record."""

import json
from dataclasses import replace

import pytest
import torch

from serl.agent.dialects import Kind
from serl.agent.trajectory import Trajectory
from serl.errors import InputError
from serl.hindsight.credit.candidate import candidate_of
from serl.hindsight.diagnostics.lexemes import TokenKind
from serl.hindsight.diagnostics.table import TurnView, labelled, of_records
from serl.hindsight.masks import scope_mask
from serl.reward.panel import Reward
from serl.task import Question
from serl.train.credit.replay import sample_of
from serl.train.records import record
from serl.train.samples import Sample
from serl.train.traces import TraceWriter
from serl.train.warm_start import schemas
from serl.workbench import open_workbench
from tests.agent.test_env import EXAMPLE, ROWS, act
from tests.agent.test_env_dialects import environment, start

QUERY = 'SELECT "name"\nFROM city WHERE name = \'Lima\\\''
ENV = environment(dialect="hermes")
PIECE = ENV.token_bytes.of


def played() -> Trajectory:
    episode = start(ENV)
    act(episode, ENV.dialect.write(Kind.SQL, QUERY, "hm"))
    episode.observe(ROWS)
    act(episode, "<exec_verify>pass</exec_verify>" + ENV.dialect.write(Kind.FINAL, "SELECT 'é'"))
    episode.observe(ROWS)
    return episode.trajectory


def row_of(trajectory: Trajectory) -> dict:
    """The record of a scored sample with an advantage."""
    scores = torch.where(torch.tensor(trajectory.loss_mask, dtype=torch.bool), -0.5, float("nan"))
    sample = replace(Sample.of(trajectory, Reward(1.0, {}, True), 1.0), student=scores, gap=scores)
    return json.loads(json.dumps(record(sample, Question(EXAMPLE, 0, "", (), ROWS), 0, 0, 0, PIECE)))


@pytest.mark.parametrize("dialect", ["hermes", "fence"])
def test_traces_are_written_in_the_dialect_of_the_environment(small_config, dialect):
    config = small_config(**{"agent.dialect": dialect, "agent.max_new_tokens": 128, "sft.hindsight_share": 0.2,
                             "agent.max_turns": 1 if dialect == "fence" else 3})
    with open_workbench(config) as bench:
        questions = bench.preparer.prepare(bench.preparer.load_split("train"), range(12))
        writer, join = TraceWriter(bench.env, bench.sandbox, config, schemas(questions)), bench.env.token_bytes.join
        traces = [trace for seed in range(3) for trace in writer.write(questions, seed)]
        kinds = {trace.kind for trace in traces}
        assert len(traces) > 20 and "direct" in kinds
        assert bool(kinds & {"check", "correct"}) == (dialect == "hermes")
        for trace in traces:
            assert b"<solution>" not in join(trace.ids) and b"<sql>" not in join(trace.ids)
            targets = join([index for index, on in zip(trace.ids, trace.target) if on])
            solution = bench.env.dialect.parse(targets.split(b"</tool_call>")[-1]).sql
            assert solution in {question.example.gold_sql for question in questions}


def test_gold_that_the_dialect_cannot_say_has_no_trace(small_config):
    with open_workbench(small_config()) as bench:
        (question,) = bench.preparer.prepare(bench.preparer.load_split("train"), [0])
        question = replace(question, example=replace(question.example, gold_sql="SELECT '</solution>'"))
        assert TraceWriter(bench.env, bench.sandbox, bench.config, schemas([question])).write([question], 0) == []


def test_a_record_is_read_back_in_its_own_dialect():
    trajectory = played()
    row = row_of(trajectory)
    assert (row["dialect"], row["thinking_open"]) == ("hermes", False)
    again = sample_of(row, PIECE).trajectory
    assert again.dialect == trajectory.dialect and again.final_sql == "SELECT 'é'"
    assert again.turns == trajectory.turns
    assert again.turns[0].parsed.sql == QUERY
    assert len(of_records([row], PIECE).weight_BT) == 1
    del row["dialect"], row["thinking_open"]  # as records were before there were several
    with pytest.raises(InputError, match="do not say its final_sql"):
        sample_of(row, PIECE)


def test_words_of_sql_within_json_are_found_at_the_bytes_that_spell_them():
    trajectory = played()
    views = [TurnView(turn.action, turn.sql, turn.parsed.sql, turn.parsed.offsets, "ok", None)
             for turn in trajectory.turns]
    first = trajectory.turns[0].action[0]
    kinds = labelled(trajectory.token_ids, views, first, PIECE)["kind_T"]

    def text(kind: TokenKind) -> str:
        start, end = trajectory.turns[0].action
        return b"".join(PIECE(trajectory.token_ids[place]) for place in range(start, end)
                        if kinds[place - first] == kind).decode()

    assert text(TokenKind.KEYWORD).replace(" ", "") == "SELECTFROMWHERE"
    assert text(TokenKind.IDENTIFIER).replace(" ", "") == '\\"name\\"cityname'
    assert text(TokenKind.LITERAL).replace(" ", "").startswith("'Lima")


def test_scopes_of_the_action_mask_tell_tools_from_sql():
    trajectory = played()
    query, solution = trajectory.turns
    action, sql, final = (scope_mask(trajectory, scope) for scope in ("action", "sql_only", "final_only"))
    said = b"".join(PIECE(index) for index, on in zip(trajectory.token_ids, action & ~sql) if on)
    assert b"exec_sql" in said and b"SELECT" not in said
    assert sql.nonzero().flatten().tolist() == [*range(*query.sql), *range(*solution.sql)]
    assert final.nonzero().flatten().tolist() == list(range(*solution.sql))


def test_the_solution_of_another_dialect_is_a_candidate():
    trajectory = played()
    candidate = candidate_of(trajectory, PIECE, correct=True)
    assert candidate.sql == "SELECT 'é'" and candidate.tokens == trajectory.turns[-1].sql
    assert candidate.closer == trajectory.turns[-1].sql[1]
