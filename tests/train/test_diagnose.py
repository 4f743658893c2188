"""Token tables from samples and from records, and the controls of a step, with tiny models."""

import json
from dataclasses import replace

import pytest
import torch

from serl.agent.trajectory import Trajectory
from serl.config import Config, HindsightConfig
from serl.errors import InputError
from serl.hindsight.context import Hindsight, empty_hindsight
from serl.hindsight.diagnostics.groups import hindsight_diagnostics
from serl.hindsight.diagnostics.table import of_records
from serl.hindsight.levels import ContextOptions
from serl.reward.panel import Reward
from serl.sql.outcome import Outcome, Status
from serl.task import Question
from serl.train.diagnose import choose, contexts_of, diagnose, hinted_logprobs
from serl.train.metrics import hindsight_metrics, token_table
from serl.train.records import record
from serl.train.samples import Sample, add_student, add_teacher
from tests.agent.test_env import EXAMPLE, ROWS, act, encode, environment, start
from tests.models import tiny_model

PIECE = environment().token_bytes.of
NO_COLUMN = Outcome(Status.ERROR, error="no such column: town")
CONFIG = Config()


def played(*turns: tuple[str, Outcome | None]) -> Trajectory:
    episode = start(environment())
    for text, outcome in turns:
        act(episode, text)
        episode.observe(outcome)
    return episode.trajectory


def scored(options: HindsightConfig = CONFIG.hindsight, seed: int = 1) -> list[Sample]:
    """Three trajectories (the last without advantage) under a teacher that is not the student."""
    trajectories = [
        played(("<sql>SELECT town FROM city</sql>", NO_COLUMN), ("<think>é</think><solution>SELECT name, 1 FROM city"
                                                                 "</solution>", ROWS)),
        played(("no tags", None), ("<solution>SELECT 'Lima'</solution>", ROWS)),
        played(("<solution>SELECT 1</solution>", ROWS))]
    samples = [Sample.of(trajectory, Reward(1.0, {}, True), advantage)
               for trajectory, advantage in zip(trajectories, (1.0, -0.5, 0.0))]
    config = replace(CONFIG, hindsight=options)
    samples, _ = add_teacher(student(seed), samples, encode, 0.5, config)
    return add_student(student(), samples, 0.5, config)


def student(seed: int = 0) -> torch.nn.Module:
    return tiny_model(len(environment().tokenizer), seed)


def text(sample: Sample, tokens: torch.Tensor) -> str:
    """The chosen ones of the tokens behind the prompt."""
    ids = sample.trajectory.token_ids[sample.first:]
    return b"".join(PIECE(index) for index, on in zip(ids, tokens) if on).decode()


def test_every_token_finds_its_turn_outcome_kind_and_whether_the_teacher_saw_it():
    samples = scored()
    table = token_table(samples, PIECE)
    assert table.weight_BT.shape[0] == 2, "a trajectory without advantage has no credit to share out"
    first, second = (lambda mask, row=row: text(samples[row], mask[row]) for row in (0, 1))
    assert first(table.covered_BT) == "SELECT town FROM citySELECT name, 1 FROM city"
    assert first(table.turn_BT == 1) == "<think>é</think><solution>SELECT name, 1 FROM city</solution>"
    assert [text(samples[0], table.kind_BT[0] == kind).split() for kind in (2, 3, 4)] == [
        ["SELECT", "FROMSELECT", "FROM"], ["1"], ["town", "city", "name", "city"]]
    assert first(table.status_BT == 2) == "<sql>SELECT town FROM city</sql>"
    # "town" stands in the message, "name" and nothing else of the solution in the rows (name, people, Lima, 10, Cusco).
    assert first(table.shown_BT).split() == ["town", "name"]
    assert second(table.status_BT == 8) == "no tags"
    assert second(table.shown_BT).strip() == "'Lima'"
    assert second(table.covered_BT) == "SELECT 'Lima'"


@pytest.mark.parametrize("options", [HindsightConfig(), HindsightConfig(gap="hindsight_only", mask="all",
                                                                        normalize="center", map="tanh")])
def test_a_runs_records_give_the_metrics_of_the_step_again(options):
    samples = scored(options)
    expected = hindsight_metrics(samples, PIECE, options)
    lines = [json.dumps(record(sample, Question(EXAMPLE, 0, "", (), ROWS), 0, number, 0, PIECE))
             for number, sample in enumerate(samples)]
    found = hindsight_diagnostics(of_records(map(json.loads, lines), PIECE), options)
    assert len(expected) > 40
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_records_of_another_tokenizer_or_without_gaps_are_refused():
    row = json.loads(json.dumps(record(scored()[0], Question(EXAMPLE, 0, "", (), ROWS), 0, 0, 0, PIECE)))
    with pytest.raises(InputError, match="tokenizer of the run's own checkpoint"):
        of_records([row], lambda index: b"?")
    del row["gaps"]
    with pytest.raises(InputError, match="step 0, question 1, sample 0: the record holds no gaps"):
        of_records([row], PIECE)


def test_the_teachers_pass_can_be_repeated_from_the_samples_hindsights():
    samples = scored()
    contexts = [hindsight for sample in samples for hindsight in sample.hindsights]
    assert [hindsight is None for hindsight in contexts] == [False, False, True, False, True]
    for sample, logp in zip(samples, hinted_logprobs(student(1), samples, contexts, CONFIG)):
        torch.testing.assert_close(logp, sample.teacher, rtol=0, atol=1e-5, equal_nan=True)


def test_hindsight_without_room_is_left_out():
    samples = scored()[:1]
    long = Hindsight(tuple(encode("x") * CONFIG.model.max_length))
    (logp,) = hinted_logprobs(student(), samples, [long, *samples[0].hindsights[1:]], CONFIG)
    start, end = samples[0].trajectory.turns[1].action
    assert torch.isfinite(logp).nonzero().flatten().tolist() == list(range(start, end))


@pytest.mark.parametrize("gap", ["teacher_student", "hindsight_only"])
def test_controls_stand_beside_the_real_gap(gap):
    options = HindsightConfig(gap=gap)
    samples = choose(scored(options), 8)
    assert len(samples) == 2
    asked = ContextOptions.of(CONFIG)
    contexts = contexts_of(samples, asked, encode, 0)
    empty = empty_hindsight(asked, encode)
    assert contexts == {"empty": [empty, empty, None, empty]}, "no other question to shuffle with, no verdict to flip"
    contexts["same"] = [each for sample in samples for each in sample.hindsights]
    metrics = diagnose(student(), student(1), samples, contexts, replace(CONFIG, hindsight=options))
    # The context that the teacher did read is the real one again.
    for name in ("gap_mean", "gap_abs_mean", "gap_std"):
        assert metrics[f"control/same_{name}"] == pytest.approx(metrics[f"control/real_{name}"], abs=1e-5)
    assert metrics["control/same_correlation"] == pytest.approx(1.0)
    assert abs(metrics["control/empty_correlation"]) < 0.999
    table = token_table(samples, PIECE)
    assert metrics["control/real_gap_mean"] == pytest.approx(table.evidence_BT[table.covered_BT].mean().item(),
                                                             abs=1e-5)
    assert metrics["noise/gap_std"] > 0.01, "the frame moves an untrained model's log-probs"


def test_the_noise_floor_of_a_splice_of_nothing_is_zero():
    samples = scored()[:2]
    nothing = [None if shown is None else Hindsight(()) for sample in samples for shown in sample.hindsights]
    metrics = diagnose(student(), student(1), samples, {"empty": nothing}, CONFIG)
    assert metrics["noise/gap_abs_mean"] < 1e-5 and metrics["noise/gap_std"] < 1e-5
    # Under other weights it is their drift, and the real gap has the hindsight on top.
    assert metrics["control/empty_gap_std"] > 0.1
    assert diagnose(student(), student(1), [], {"empty": []}, CONFIG) == {}


def test_chosen_trajectories_have_hindsight_and_tokens_that_it_may_reweight():
    won, lost, even = scored()
    assert [id(sample) for sample in choose([even, won, even, lost, won], 2)] == [id(won), id(lost)]
    unread = replace(won, hindsights=(None, None))
    unmasked = replace(won, hindsight_mask=torch.zeros_like(won.hindsight_mask))
    assert choose([even, unread, unmasked], 2) == []
