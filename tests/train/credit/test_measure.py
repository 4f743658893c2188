"""The table from samples and models: which rows there are, what they rest on, and records read back."""

import json
from dataclasses import replace

import pytest
import torch

from serl.config import AgentConfig, Config, HindsightConfig
from serl.config.hindsight import LEVELS
from serl.errors import InputError
from serl.hindsight.context import teacher_input
from serl.hindsight.credit.gate import gate
from serl.hindsight.facts import know
from serl.hindsight.teacher_only import GoldAnswer, PartAnswers
from serl.io import write_jsonl
from serl.sql.outcome import Outcome, Status
from serl.task import Question
from serl.train.credit.contexts import Case, make_contexts
from serl.train.credit.measure import Judge, gather, measure
from serl.train.credit.replay import read_groups, recorded_steps, sample_of
from serl.train.credit.watch import Watch
from serl.train.groups import Group
from serl.train.records import record
from serl.train.samples import score_samples
from serl.view.credit import credit_picture
from tests.agent.test_env import ROWS, encode
from tests.hindsight.credit.played import PIECE
from tests.models import tiny_model
from tests.train.credit.players import SHORT, WRONG, example_of, group
from tests.train.credit.players import sample_of as played_sample

CONFIG = Config(hindsight=HindsightConfig(budget=64), agent=AgentConfig(observation_rows=3))
GOLD_RESULT = Outcome(Status.OK, ("name",), (("Lima",),), 1)


def cases_of(samples, city, question_id: str = "1") -> list[Case]:
    example = example_of(city, question_id=question_id)
    finals, correct = zip(*((sample.trajectory.final_sql, sample.correct) for sample in samples))
    known = know(question_id, finals, correct, GoldAnswer(example.gold_sql, GOLD_RESULT))
    parts = {turn.parsed.sql: PartAnswers(()) for sample in samples for turn in sample.trajectory.turns}
    return [Case(replace(sample, known=replace(each, parts=parts)), example, GOLD_RESULT)
            for sample, each in zip(samples, known)]


@pytest.fixture(scope="module")
def groups(city):
    return [cases_of(group(), city, str(number)) for number in range(3)]


def rows_of(table) -> dict[tuple[str, str, str], object]:
    return {(row.source, row.teacher, row.hindsight): row for row in table.rows}


def test_the_table_has_every_source_control_and_gap(model, groups):
    other = tiny_model(model.config.vocab_size, seed=5)
    batch = gather(groups, PIECE)
    assert len(batch.cases) == len(batch.failures.found) == 9  # three failures of each group of four
    judges = [Judge("synchronized", model, ("teacher_student",), against_empty=True),
              Judge("other", other, ("teacher_student", "hindsight_only"))]
    passes = []
    contexts = make_contexts(batch.cases, encode, CONFIG, ["exec"])
    rows = rows_of(measure(batch, model, judges, contexts, CONFIG, lambda: passes.append(1)))
    sync, apart = "synchronized", "other"
    assert list(rows) == [("oracle_diff", "", ""), ("sibling_contrast", "", ""), ("surprisal", "", ""),
                          ("entropy", "", ""), ("parts_surprisal", "", ""), ("student −logp", "", ""),
                          ("student entropy", "", ""),
                          ("teacher_gap", sync, "exec"), ("teacher_gap", sync, "empty"),
                          ("teacher_gap", sync, "exec shuffled"),
                          ("teacher_gap", sync, "exec − empty"), ("teacher_gap", sync, "exec shuffled − empty"),
                          *(("teacher_gap", sync, f"{name} / spread") for name in ("exec", "empty", "exec shuffled")),
                          *((source, apart, name) for source in ("teacher_gap", "hindsight_only")
                            for name in ("exec", "empty", "exec shuffled"))]
    assert len(passes) == 2 + 2 * 3
    assert rows["oracle_diff", "", ""].overall.value == rows["sibling_contrast", "", ""].overall.value == 1.0
    tokens = rows["oracle_diff", "", ""].overall
    assert tokens.wrong == sum(len(each.marked.blamed) for each in batch.failures.found) and tokens.questions == 3
    assert {row.overall.tokens for row in rows.values()} == {tokens.tokens}
    leads = {key: [lead.control for lead in row.leads] for key, row in rows.items() if row.leads}
    student = ["student −logp", "student entropy"]
    assert leads == {("teacher_gap", sync, "exec"): ["empty", "exec shuffled", *student],
                     ("teacher_gap", sync, "exec − empty"): ["exec shuffled − empty", *student],
                     ("teacher_gap", sync, "exec / spread"): ["empty / spread", "exec shuffled / spread", *student],
                     ("teacher_gap", apart, "exec"): ["empty", "exec shuffled", *student],
                     ("hindsight_only", apart, "exec"): ["empty", "exec shuffled", *student]}


def test_every_level_has_its_own_controls(groups):
    cases = gather(groups, PIECE).cases
    contexts = make_contexts(cases, encode, CONFIG)
    shuffled = {level: ("empty", f"{level} shuffled") for level in LEVELS}
    shuffled["exec+verdict"] += ("exec+verdict flipped",)
    assert contexts.controls == shuffled
    assert set(contexts.by_name) == {"empty"} | set(LEVELS) | {name for names in shuffled.values() for name in names}
    assert contexts.by_name["exec+verdict"] != contexts.by_name["exec+verdict flipped"]
    alone = make_contexts(cases[:1], encode, CONFIG, ["exec"])
    assert alone.controls == {"exec": ("empty",)}, "no other question to shuffle with"


def test_the_gap_of_the_table_is_the_teachers_logprob_behind_the_hindsight_less_the_students(model, groups):
    other = tiny_model(model.config.vocab_size, seed=5)
    batch = gather(groups[:1], PIECE, limit=1)
    (case,), (failure,) = batch.cases, batch.failures.found
    turn, trajectory = case.sample.trajectory.turns[-1], case.sample.trajectory
    contexts = make_contexts([case], encode, CONFIG)
    ids, first = teacher_input(trajectory, turn, contexts.by_name["exec"][0])
    with torch.no_grad():
        hinted = other(torch.tensor([ids])).logits[0].log_softmax(-1)
    (student,) = score_samples(model, [case.sample], CONFIG)
    behind = first - turn.action[0] - 1  # logits at i predict the token at i + 1
    blame = {place: (student[place] - hinted[place + behind, trajectory.token_ids[place]]).item()
             for place in failure.candidate.scope}
    right = [place for place in blame if place not in failure.marked.blamed]
    pairs = [(blame[bad] > blame[good]) for bad in failure.marked.blamed for good in right]
    table = measure(batch, model, [Judge("other", other, ("teacher_student",))], contexts, CONFIG)
    assert rows_of(table)["teacher_gap", "other", "exec"].overall.value == pytest.approx(sum(pairs) / len(pairs))


def test_a_limit_takes_a_seeded_sample_of_failures_with_their_own_cases(groups):
    def places(**options) -> list[tuple[str, int]]:
        batch = gather(groups, PIECE, **options)
        for case, failure in zip(batch.cases, batch.failures.found, strict=True):
            assert case.sample.trajectory.final_sql == failure.candidate.sql
            assert case.example.question_id == failure.question
        return [(failure.question, failure.n) for failure in batch.failures.found]

    some = places(limit=4)
    assert len(some) == 4 and some == places(limit=4) == sorted(some) and set(some) < set(places())
    assert places(limit=4, seed=1) != some and places(limit=99) == places()


def recorded(sample, example, number: int, step: int = 0) -> dict:
    line = record(sample, Question(example, 0, "", (), ROWS), step, number, 0, PIECE)
    return json.loads(json.dumps(line))


def test_a_record_gives_the_sample_back(model, city):
    sample = group()[0]
    (student,) = score_samples(model, [sample], CONFIG)
    sample = replace(sample, student=student, teacher=student + 0.25, weight=torch.full_like(student, 1.1))
    again = sample_of(recorded(sample, example_of(city), 0), PIECE)
    for name in ("token_ids", "loss_mask", "action_mask", "sampler_logprobs", "turns", "stop"):
        assert getattr(again.trajectory, name) == getattr(sample.trajectory, name), name
    assert (again.reward, again.advantage) == (sample.reward, sample.advantage)
    for name in ("student", "teacher", "weight"):
        torch.testing.assert_close(getattr(again, name), getattr(sample, name), equal_nan=True)
    assert sample_of(recorded(group()[0], example_of(city), 0), PIECE).student is None
    with pytest.raises(InputError, match="run's own tokenizer"):
        sample_of(recorded(sample, example_of(city), 0), lambda index: PIECE(index + 1))


def test_the_recorded_gap_has_a_row_where_training_had_one(model, city, groups):
    known = [replace(case.sample, student=torch.zeros(len(case.sample.trajectory)),
                     teacher=torch.zeros(len(case.sample.trajectory))) for case in groups[0]]
    batch = gather([cases_of(known, city)], PIECE)
    contexts = make_contexts(batch.cases, encode, CONFIG)
    row = rows_of(measure(batch, model, [], contexts, CONFIG))["teacher_gap", "as recorded", "exec"]
    assert row.overall.value == 0.5 and len(row.leads) == 2  # a gap of 0 everywhere tells nothing


def test_steps_are_read_from_a_run_folder_in_the_groups_that_were_sampled(city, tmp_path):
    with pytest.raises(InputError, match="no trajectories"):
        recorded_steps(tmp_path)
    for step in (3, 7):
        lines = [recorded(group()[1], example_of(city, question_id=name), number, step)
                 for name, number in (("a", 0), ("a", 1), ("b", 0), ("a", 0), ("a", 1))]
        write_jsonl(tmp_path / "trajectories" / f"step_{step:06d}.jsonl", lines)
    (tmp_path / "trajectories" / "step_copy.jsonl").write_text("")
    assert recorded_steps(tmp_path) == [3, 7]
    found = read_groups(tmp_path, [7, 3])
    assert [(each[0]["step"], each[0]["question_id"], len(each)) for each in found] == [
        (step, name, size) for step in (7, 3) for name, size in (("a", 2), ("b", 1), ("a", 2))]
    with pytest.raises(InputError, match="no trajectories of step 5; it has 3 to 7"):
        read_groups(tmp_path, [5])


@pytest.mark.parametrize(("change", "said"), [
    (lambda record: [record], "not a trajectory"),
    (lambda record: {key: value for key, value in record.items() if key != "weights"}, "it has no weights"),
    (lambda record: record | {"turns": [{"state": [0, 1]}]}, "a turn of it has no action"),
    (lambda record: record | {"student_logprobs": [None]}, r"\d+ tokens and 1 student_logprobs"),
])
def test_a_record_that_is_none_is_named(city, tmp_path, change, said):
    line = recorded(group()[1], example_of(city), 0)
    write_jsonl(tmp_path / "trajectories" / "step_000000.jsonl", [line, change(line)])
    with pytest.raises(InputError, match=rf"step_000000.jsonl, record 2: {said}"):
        read_groups(tmp_path, [0])


def test_a_watch_measures_on_its_schedule_and_warns_once(model, city, capsys):
    config = replace(CONFIG, hindsight=replace(CONFIG.hindsight, gate_every=2))
    watch = Watch(config, encode, PIECE)
    assert [watch.is_due(step, 0.5) for step in range(3)] == [True, False, True] and not watch.is_due(0, 0.0)
    groups = [Group(Question(example_of(city, question_id=str(number)), 0, "", (), ROWS),
                    [played_sample(WRONG if number % 2 == 0 else SHORT, False, -1.0)]) for number in range(10)]
    metrics = watch.metrics(0, groups, model, tiny_model(model.config.vocab_size, seed=5))
    assert metrics["gate/failures"] == 10 and 0 < metrics["gate/auc"] < 1
    assert {f"gate/{part}/{name}" for part in ("lead", "lead_low")
            for name in ("empty", "student_logp", "student_entropy")} < set(metrics)
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("warning: step 0: the teacher_gap under exec hindsight has AUC")
    watch.metrics(2, groups, model, tiny_model(model.config.vocab_size, seed=5))
    assert capsys.readouterr().err == ""
    off = Watch(replace(config, hindsight=replace(config.hindsight, source="surprisal")), encode, PIECE)
    assert not off.is_due(0, 0.5)


def test_a_batch_without_failures_has_no_gate(model, city, capsys):
    watch = Watch(replace(CONFIG, hindsight=replace(CONFIG.hindsight, gate_every=1)), encode, PIECE)
    right = [played_sample("SELECT name FROM city WHERE area > 5", True, 0.0)]
    groups = [Group(Question(example_of(city), 0, "", (), ROWS), right)]
    assert watch.metrics(0, groups, model, model) == watch.metrics(0, [], model, model) == {"gate/failures": 0.0}
    assert capsys.readouterr().err == ""


def test_the_picture_is_written_for_a_table_with_gaps(model, groups, tmp_path):
    batch = gather(groups, PIECE)
    table = measure(batch, model, [Judge("live", model, ("teacher_student",))],
                    make_contexts(batch.cases, encode, CONFIG), CONFIG)
    assert credit_picture(table, "run $1", tmp_path / "credit.png").read_bytes().startswith(b"\x89PNG")
    assert gate(table) is None  # three questions are too few to judge by
