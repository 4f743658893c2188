"""The loss by hand, its gradient at the edge, a step against a slow reference, batches, the epoch that is kept."""

import copy
import math

import pytest
import torch

from serl.config import Config, TeachConfig
from serl.errors import InputError
from serl.sql.tree.schema import schema_of
from serl.train.engine import TorchEngine
from serl.train.teach import school
from serl.train.teach.held_out import examine
from serl.train.teach.learning import DELTA, LessonRun, lesson_loss, lesson_step, question_batches, sft_options
from serl.train.teach.lessons import Lesson, LessonWriter
from serl.train.teach.school import learn, split
from tests.agent.test_env import TOKENIZER, encode
from tests.hindsight.credit.played import PIECE
from tests.models import tiny_model
from tests.train.credit.players import group
from tests.train.teach.test_lessons import config_of


def lessons_of(city, config: Config, questions: int = 1) -> list[Lesson]:
    writer = LessonWriter(config, encode, PIECE)
    return [lesson for number in range(questions) for lesson in writer.write(str(number), group(), schema_of(city))]


def test_the_loss_is_likelihood_up_and_unlikelihood_down_each_with_its_weight():
    logp_N = torch.tensor([0.5, 0.25, 0.8]).log().requires_grad_()
    loss = lesson_loss(logp_N, torch.tensor([1.0, 2.0, -0.5]))
    expected = math.log(2) + 2 * math.log(4) - 0.5 * math.log(1 - (1 - DELTA) * 0.8)
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    # d/d log p of −log p is −1, of −log(1 − k p) is k p / (1 − k p)
    down = (1 - DELTA) * 0.8 / (1 - (1 - DELTA) * 0.8)
    torch.testing.assert_close(logp_N.grad, torch.tensor([-1.0, -2.0, 0.5 * down]))


def test_a_certain_token_can_be_made_less_likely_with_a_finite_gradient():
    logp_N = torch.zeros(1, requires_grad=True)
    lesson_loss(logp_N, torch.tensor([-1.0])).backward()
    assert logp_N.grad.item() == pytest.approx((1 - DELTA) / DELTA, rel=1e-3)


def test_one_step_has_the_gradient_of_whole_sequences_one_at_a_time(city, model):
    config = config_of(contrast=0.5, empty_share=1.0)
    lessons = lessons_of(city, config)
    shared, plain = copy.deepcopy(model), copy.deepcopy(model)
    engine = TorchEngine(shared, 1e-3, 0.0, 1e9, lambda step: 1.0)
    metrics = lesson_step(engine, lessons, config)

    loss, total = torch.zeros(()), 0.0
    for lesson in lessons:
        logp_TV = plain(torch.tensor([lesson.tail.ids])).logits[0].log_softmax(-1)
        scale = 0.5 if lesson.kind == "contrast" else 1.0
        for place, sign in enumerate(lesson.signs, lesson.tail.first):
            logp = logp_TV[place - 1, lesson.tail.ids[place]]
            if sign > 0:
                loss = loss - scale * logp
            elif sign < 0:
                loss = loss - scale * torch.log(1 - (1 - DELTA) * logp.exp())
            total += scale * abs(sign)
    (loss / total).backward()
    assert metrics["loss"] == pytest.approx((loss / total).item(), rel=1e-5)
    norm = torch.cat([p.grad.flatten() for p in plain.parameters()]).norm().item()
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-4)
    for one, other in zip(shared.parameters(), plain.parameters()):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-6, rtol=1e-4)


def test_a_batch_holds_all_lessons_of_its_questions_in_a_seeded_order(city):
    lessons = lessons_of(city, config_of(), 5)
    batches = question_batches(lessons, 2, 0)
    assert [len({lesson.question for lesson in batch}) for batch in batches] == [2, 2, 1]
    assert sorted(map(id, lessons)) == sorted(id(lesson) for batch in batches for lesson in batch)
    orders = [[batch[0].question for batch in question_batches(lessons, 2, seed)] for seed in (0, 0, 1, 2, 3)]
    assert orders[0] == orders[1] and len(set(map(tuple, orders))) > 1


def test_questions_are_held_out_whole_and_contrasts_are_learned_only_where_they_weigh(city):
    for contrast in (0.0, 1.0):
        config = config_of(contrast=contrast, held_out=0.4)
        learned, held_out = split(lessons_of(city, config, 5), config)
        assert len({each.question for each in held_out}) == 2 and len({each.question for each in learned}) == 3
        assert not {each.question for each in held_out} & {each.question for each in learned}
        kinds = {(each.kind, each.level) for each in learned}
        assert (("contrast", "exec+verdict") in kinds) == (contrast > 0) and ("contrast", "empty") not in kinds
        assert {("contrast", "exec+verdict"), ("contrast", "empty")} < {(each.kind, each.level) for each in held_out}
    config = config_of(contrast=1.0, imitation=0.0, held_out=0.4)
    learned, held_out = split(lessons_of(city, config, 5), config)
    assert {each.kind for each in learned} == {"contrast"} and len({each.kind for each in held_out}) == 4
    with pytest.raises(InputError, match="of 1 questions .* holds out 0"):
        split(lessons_of(city, config, 1), config)


def test_the_figures_of_held_out_lessons_are_those_of_a_plain_forward(city, model):
    config = config_of(empty_share=1.0)
    lessons = lessons_of(city, config, 2)
    exam = examine(model, lessons, 3, config)

    def logps(lesson):
        with torch.no_grad():
            logp_TV = model(torch.tensor([lesson.tail.ids])).logits[0].log_softmax(-1)
        return [logp_TV[place - 1, lesson.tail.ids[place]].item() for place in range(lesson.tail.first,
                                                                                    len(lesson.tail.ids))]

    own = [-logp for lesson in lessons if lesson.kind == "own" for logp in logps(lesson)]
    assert exam.nats["own empty"] == pytest.approx(sum(own) / len(own), rel=1e-4)
    learned = [-logp for lesson in lessons if lesson.kind != "contrast" for logp in logps(lesson)]
    assert exam.loss == pytest.approx(sum(learned) / len(learned), rel=1e-4)
    blame = [(was - logp, sign) for lesson in lessons if (lesson.kind, lesson.level) == ("contrast", "exec+verdict")
             for was, logp, sign in zip(lesson.sampled, logps(lesson), lesson.signs) if sign]
    pairs = [(bad > good) for bad, low in blame if low < 0 for good, high in blame if high > 0]
    assert exam.auc["exec+verdict"].value == pytest.approx(sum(pairs) / len(pairs))
    assert set(exam.auc) == {"exec+verdict", "empty", "student −logp"} and exam.epoch == 3
    assert exam.auc["student −logp"].value == 0.5, "all were sampled with the same log-prob"
    assert exam.line().startswith(f"epoch 3: loss {exam.loss:.4f}; nats a token:")


def test_learning_lowers_the_loss_and_moves_the_gap_behind_hindsight_more_than_behind_the_empty_frame(city):
    config = config_of(contrast=1.0, epochs=20, lr=3e-3, questions=2, held_out=0.5, empty_share=1.0)
    student = tiny_model(len(TOKENIZER))
    learned, held_out = split(lessons_of(city, config, 4), config)
    exams, kept = learn(student, learned, held_out, config)  # the questions are alike: what is learned holds
    assert len(exams) == 21 and exams[kept].loss == min(exam.loss for exam in exams) < 0.5 * exams[0].loss
    assert exams[kept].auc["exec+verdict"].value > 0.95
    assert exams[kept].nats["own empty"] > exams[kept].nats["corrected exec+verdict"]


def test_the_weights_of_the_best_epoch_are_kept_even_if_they_are_the_first(city, model, monkeypatch):
    config = config_of(epochs=3, lr=1e-2, held_out=0.5)
    learned, held_out = split(lessons_of(city, config, 2), config)
    true, seen = school.examine, []

    def worse(weights, lessons, epoch, options):
        exam = true(weights, lessons, epoch, options)
        seen.append(copy.deepcopy(weights.state_dict()))
        return type(exam)(epoch, {0: 3.0, 1: 1.0, 2: 2.0, 3: 1.5}[epoch], exam.nats, exam.auc)

    monkeypatch.setattr(school, "examine", worse)
    student = copy.deepcopy(model)
    _, kept = learn(student, learned, held_out, config)
    assert kept == 1 and not torch.equal(seen[1]["lm_head.weight"], seen[3]["lm_head.weight"])
    assert all(torch.equal(value, seen[1][name]) for name, value in student.state_dict().items())


def test_the_loop_is_that_of_sft_with_the_rate_and_length_of_teach(city, model):
    config = config_of(epochs=1.5, lr=0.25, questions=1)
    run = LessonRun(copy.deepcopy(model), lessons_of(city, config, 4), config)
    assert (run.total, run.config.lr, run.config.epochs) == (6, 0.25, 1.5)
    assert sft_options(config).grad_clip == Config().sft.grad_clip and TeachConfig().lr == Config().teach.lr
