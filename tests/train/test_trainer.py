"""The whole loop on real questions: learning signal, exactness of hindsight off, invariances."""

import json
from dataclasses import replace

import pytest
import torch

from serl.hindsight.context import Hindsight, make_hindsight, teacher_input
from serl.hindsight.diagnostics.groups import hindsight_diagnostics
from serl.hindsight.diagnostics.table import of_records
from serl.hindsight.facts import facts_of
from serl.hindsight.levels import ContextOptions
from serl.io import read_jsonl
from serl.tracking import hindsight_file, trajectory_file
from serl.train.samples import add_student, add_teacher
from serl.train.scoring import Tail, score
from serl.train.update import denominator, micro_loss, update
from tests.train.conftest import opened_trainer


def weights(trainer) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in trainer.bench.model.parameters()])


@pytest.fixture(scope="module")
def one_step(small_config, tmp_path_factory):
    """Metrics, records and final weights of one step with hindsight."""
    folder = tmp_path_factory.mktemp("one_step")
    with opened_trainer(small_config(), folder) as trainer:
        before = weights(trainer).clone()
        metrics = trainer.step(0)
        return {"metrics": metrics, "records": read_jsonl(trajectory_file(folder, 0)), "before": before,
                "after": weights(trainer).clone()}


def test_a_step_has_a_signal_and_moves_the_weights(one_step):
    metrics = one_step["metrics"]
    assert metrics["groups/zero_variance"] < 1 and metrics["grad_norm"] > 0
    assert all(torch.isfinite(torch.tensor(value)) for value in metrics.values())
    assert not torch.equal(one_step["before"], one_step["after"])


def test_an_update_makes_better_trajectories_likelier_and_worse_ones_less_likely(small_config, tmp_path):
    with opened_trainer(small_config(**{"train.lr": 5e-5}), tmp_path) as trainer:
        model = trainer.bench.model
        before = trainer.judge(trainer.roll_out(0, trainer.bench.preparer.prepare(trainer.train_split, range(6))),
                                trainer.bench.preparer.prepare(trainer.train_split, range(6)))
        _, before = update(trainer.engine, before, 0.5, trainer.config)
        after = add_student(model, before, 0.5, trainer.config)
    change = {1: 0.0, -1: 0.0}
    for old, new in zip(before, after):
        if old.advantage:
            change[1 if old.advantage > 0 else -1] += (new.student - old.student).nansum().item()
    assert change[1] > 0 > change[-1]


def test_sampler_and_trainer_agree_on_every_sampled_token(one_step):
    assert one_step["metrics"]["mismatch/max"] < 1e-3


def test_records_hold_aligned_token_values(one_step):
    assert len(one_step["records"]) == 20
    for record in one_step["records"]:
        sizes = {len(record[key]) for key in ("token_ids", "tokens", "loss_mask", "action_mask", "weights",
                                              "sampler_logprobs", "student_logprobs", "teacher_logprobs")}
        assert len(sizes) == 1
        for on, in_action, weight, sampler, student, teacher in zip(
                *(record[key] for key in ("loss_mask", "action_mask", "weights", "sampler_logprobs",
                                          "student_logprobs", "teacher_logprobs"))):
            assert (sampler is not None) == bool(on)
            assert (student is not None) == (bool(on) and record["advantage"] != 0)
            assert 0.9 - 1e-6 <= weight <= 1.1 + 1e-6
            if not in_action or record["advantage"] == 0:
                assert weight == 1
            if not on:
                assert teacher is None


def test_weights_follow_the_four_quadrants_in_a_real_batch(one_step):
    moved = 0
    for record in one_step["records"]:
        for weight, student, teacher in zip(*(record[key] for key in ("weights", "student_logprobs",
                                                                      "teacher_logprobs"))):
            if weight != 1:
                moved += 1
                assert (weight > 1) == ((record["advantage"] > 0) == (teacher > student))
    assert moved > 20


def test_student_tokens_are_the_same_with_hindsight_on_and_off_and_lambda_zero_runs_no_teacher(
        one_step, small_config, tmp_path):
    with opened_trainer(small_config(**{"hindsight.lambda0": 0.0}), tmp_path) as trainer:
        calls = []
        trainer.teacher.model.register_forward_hook(lambda *_: calls.append(1))
        trainer.step(0)
        records = read_jsonl(trajectory_file(tmp_path, 0))
    assert calls == []
    assert [r["token_ids"] for r in records] == [r["token_ids"] for r in one_step["records"]]
    assert all(weight == 1 for record in records for weight in record["weights"])
    text = "".join(piece for record in records for piece in record["tokens"])
    assert "hindsight" not in text


def test_every_teacher_input_can_be_dumped_and_read_and_leaves_the_students_tokens_alone(
        one_step, small_config, tmp_path):
    config = small_config(**{"hindsight.dump": True, "hindsight.level": "exec+verdict", "hindsight.budget": 80,
                             "hindsight.decay_updates": 1})
    with opened_trainer(config, tmp_path) as trainer:
        trainer.step(0)
        assert trainer.step(1)["hindsight/lambda"] == 0 and not hindsight_file(tmp_path, 1).exists()
    records, rows = (read_jsonl(file(tmp_path, 0)) for file in (trajectory_file, hindsight_file))
    assert [r["token_ids"] for r in records] == [r["token_ids"] for r in one_step["records"]]
    by_turn = {(row["question_id"], row["sample"], row["turn"]): row for row in rows}
    told = [(record, number, turn) for record in records for number, turn in enumerate(record["turns"])
            if record["advantage"] and turn["outcome"]]
    assert len(by_turn) == len(rows) == len(told) > 5
    for record, number, turn in told:
        row = by_turn[record["question_id"], record["sample"], number]
        start, end = row["splice"]
        hindsight, whole = row["hindsight"], row["teacher_input"]
        assert hindsight == turn["hindsight_text"] == whole[start:end]
        assert hindsight.startswith("\n<hindsight>\n") and hindsight.endswith("\n</hindsight>")
        assert whole[:start] + whole[end:] == "".join(record["tokens"][: turn["action"][1]])
        assert whole[row["action"]:] == turn["action_text"] and row["token_splice"][0] == turn["splice_at"]
        verdict = f"matches the expected result: {'yes' if record['correct'] else 'no'}\n</hindsight>"
        assert hindsight.endswith(verdict) == (turn["kind"] == "final") and row["level"] == "exec+verdict"
    assert all(turn["hindsight_text"] is None for r in records if not r["advantage"] for turn in r["turns"])


def test_no_lambda_and_no_room_for_the_factor_give_the_same_update_bit_for_bit(small_config, tmp_path):
    after = []
    for number, off in enumerate(({"hindsight.lambda0": 0.0}, {"hindsight.eps_low": 0.0, "hindsight.eps_high": 0.0})):
        with opened_trainer(small_config(**off), tmp_path / str(number)) as trainer:
            trainer.step(0)
            after.append(weights(trainer).clone())
    assert torch.equal(*after)


@pytest.fixture(scope="module")
def samples(small_config, tmp_path_factory):
    """Trainer and scored samples of one rollout, with alternating advantages and ragged lengths."""
    with opened_trainer(small_config(), tmp_path_factory.mktemp("samples")) as trainer:
        questions = trainer.bench.preparer.prepare(trainer.train_split, range(4))
        result = trainer.roll_out(0, questions)
        scored = add_student(trainer.bench.model, trainer.judge(result, questions), 0.0, trainer.config)
        yield trainer, [replace(s, advantage=1.0 if i % 2 else -0.5) for i, s in enumerate(scored)]


def gradients(trainer, samples, micro: int, share: bool = True, lam: float = 0.0) -> dict[str, torch.Tensor]:
    model = trainer.bench.model
    config = replace(trainer.config, model=replace(trainer.config.model, shared_prefix=share))
    model.zero_grad()
    total = denominator(samples, "token_mean")
    for start in range(0, len(samples), micro):
        micro_loss(model, samples[start: start + micro], lam, config, total)[0].backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def test_gradients_do_not_depend_on_micro_batches_order_or_padding(samples):
    trainer, batch = samples
    whole = gradients(trainer, batch, len(batch))
    for other in (gradients(trainer, batch, 1), gradients(trainer, batch[::-1], 3),
                  gradients(trainer, batch, 5, share=False)):
        for name, gradient in whole.items():
            torch.testing.assert_close(other[name], gradient, rtol=1e-3, atol=1e-6 * gradient.abs().max().item() + 1e-7)


def test_old_log_probs_from_the_updates_own_forward_give_the_gradient_of_a_pass_before_it(samples):
    trainer, batch = samples
    hindsighted, _ = add_teacher(trainer.teacher.model, batch, trainer.bench.encode, 0.5, trainer.config)
    # A teacher that differs from the student: else all weights would be near 1 and prove little.
    hindsighted = [replace(s, student=None, teacher=s.teacher + torch.linspace(-0.4, 0.4, len(s.teacher)))
                   for s in hindsighted]
    first = add_student(trainer.bench.model, hindsighted, 0.5, trainer.config)
    assert min(s.weight.min().item() for s in first) < 0.95 and max(s.weight.max().item() for s in first) > 1.05
    before, fused = gradients(trainer, first, 7, lam=0.5), gradients(trainer, hindsighted, 7, lam=0.5)
    for name, gradient in before.items():
        torch.testing.assert_close(fused[name], gradient, rtol=1e-3, atol=1e-5 * gradient.abs().max().item() + 1e-7)


def test_a_synchronized_teacher_with_an_empty_splice_has_no_gap(samples):
    trainer, batch = samples
    pairs = [(s, turn) for s in batch for turn in s.trajectory.turns]
    inputs = [teacher_input(s.trajectory, turn, Hindsight(())) for s, turn in pairs]
    scores = score(trainer.teacher.model, [Tail(ids, first, 1) for ids, first in inputs], 8192, 1.0, share=True)
    for (sample, turn), teacher in zip(pairs, scores):
        assert (teacher - sample.student[slice(*turn.action)]).abs().max().item() < 1e-4


def next_logprob(model, prefix: list[int], token: int) -> float:
    """The definition: log softmax of the logits after a prefix, at the next token."""
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([prefix])).logits[0, -1], -1)[token].item()


def test_student_and_teacher_values_of_every_turn_belong_to_their_tokens(samples):
    trainer, batch = samples
    bench = trainer.bench
    weighted, _ = add_teacher(trainer.teacher.model, batch, bench.encode, 0.5, bench.config)
    multi = [sample for sample in weighted if len(sample.trajectory.turns) > 1]
    assert multi, "no trajectory with several turns: the test would say nothing"
    ids = multi[0].trajectory.token_ids
    for turn in multi[0].trajectory.turns:
        hindsight = make_hindsight(facts_of(turn, multi[0].known), ContextOptions.of(bench.config), bench.encode)
        spliced, first = teacher_input(multi[0].trajectory, turn, hindsight)
        for offset in (0, 1, turn.action[1] - turn.action[0] - 1):
            place = turn.action[0] + offset
            student = next_logprob(bench.model, ids[:place], ids[place])
            teacher = next_logprob(trainer.teacher.model, spliced[: first + offset], ids[place])
            assert multi[0].student[place].item() == pytest.approx(student, abs=1e-4)
            assert multi[0].teacher[place].item() == pytest.approx(teacher, abs=1e-4)


def test_scores_do_not_depend_on_the_batch(samples):
    trainer, batch = samples
    one_by_one = replace(trainer.config, train=replace(trainer.config.train, micro_tokens=1))
    alone = add_student(trainer.bench.model, batch, 0.0, one_by_one)
    for one, other in zip(alone, batch):
        torch.testing.assert_close(one.student, other.student, rtol=0, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("options", [{"train.loss": "distillation", "train.distill_over": "topk"},
                                     {"train.loss": "sdpo", "hindsight.teacher.mode": "live"}])
def test_the_loop_can_imitate_the_teacher_instead(small_config, tmp_path, options):
    with opened_trainer(small_config(**{"rollout.questions": 3, **options}), tmp_path) as trainer:
        before = weights(trainer).clone()
        metrics = trainer.step(0)
        assert not torch.equal(before, weights(trainer))
    assert metrics["hindsight/lambda"] == 0 and metrics["distill/divergence"] > 0 and metrics["grad_norm"] > 0
    assert 0 < metrics["distill/coverage"] < 1
    for record in read_jsonl(trajectory_file(tmp_path, 0)):
        assert all(weight == 1 for weight in record["weights"])
        for inside, teacher in zip(record["action_mask"], record["teacher_logprobs"]):
            assert (teacher is not None) == bool(inside)


def test_a_checkpoint_is_an_ordinary_model_folder(small_config, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with opened_trainer(small_config(), tmp_path) as trainer:
        folder = trainer.save()
        ids = torch.tensor([trainer.bench.encode("SELECT name FROM city")])
        expected = trainer.bench.model(ids).logits
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder).encode("SELECT name FROM city") == ids[0].tolist()
    torch.testing.assert_close(model(ids).logits, expected)
    assert not list(folder.parent.glob(".*")), "no partial folder is left"
    assert json.loads((folder / "config.json").read_text())["model_type"] == "qwen3"


def test_a_step_reports_the_gap_by_group_and_its_controls_and_controls_change_nothing(
        one_step, small_config, tmp_path):
    metrics = one_step["metrics"]
    assert metrics["control/empty_gap_abs_mean"] > 0 and -1 <= metrics["control/empty_correlation"] <= 1
    # The teacher is in step with the student, so it is the noise floor's model.
    assert metrics["noise/gap_std"] == pytest.approx(metrics["control/empty_gap_std"], rel=1e-4)
    assert metrics["teacher/own_bytes"] >= 4 * len(one_step["after"])
    with opened_trainer(small_config(**{"hindsight.diagnose_every": 0}), tmp_path) as trainer:
        plain = trainer.step(0)
        assert torch.equal(weights(trainer), one_step["after"])
        found = hindsight_diagnostics(of_records(one_step["records"], trainer.bench.env.token_bytes.of),
                                      trainer.config.hindsight)
    assert {key.split("/")[0] for key in set(metrics) - set(plain)} == {"control", "noise", "time"}
    assert found["gap/kind_identifier"] == pytest.approx(metrics["gap/kind_identifier"], rel=1e-3, abs=1e-5)
    assert found == pytest.approx({key: metrics[key] for key in found}, rel=1e-2, abs=1e-4)


@pytest.mark.parametrize(("every", "measured"), [(1, [True, True]), (2, [True, False])])
def test_controls_are_measured_on_their_schedule_while_lambda_is_above_zero(small_config, tmp_path, every, measured):
    config = small_config(**{"hindsight.diagnose_every": every, "rollout.questions": 2, "hindsight.decay_updates": 2})
    with opened_trainer(config, tmp_path) as trainer:
        steps = [trainer.step(step) for step in range(3)]
    signal = [step["hindsight/lambda"] > 0 for step in steps]
    assert signal == [True, True, False]
    assert ["time/diagnose" in step for step in steps] == [*measured, False]
