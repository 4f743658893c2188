"""Sources without a teacher on hand-made groups: masks, evidence, weights, and plain GRPO at λ = 0."""

import math
from dataclasses import replace

import pytest
import torch

from serl.config import Config, HindsightConfig
from serl.train.credit.entropy import sample_entropies
from serl.train.credit.evidence import add_evidence
from serl.train.engine import TorchEngine
from serl.train.samples import add_student
from serl.train.update import update
from tests.agent.test_env import TOKENIZER
from tests.hindsight.credit.played import PIECE
from tests.models import tiny_model
from tests.train.credit.players import GOLD, WRONG, example_of, group, said, sample_of, scope_of

SOURCES = ("oracle_diff", "sibling_contrast", "surprisal", "entropy", "parts", "parts_surprisal", "none")


def config_of(source: str, **options) -> Config:
    return Config(hindsight=HindsightConfig(source=source, allow_gold=True, **options))


def weighed(model, samples, city, source: str, lam: float = 0.5, examples=None, sandbox=None, **options):
    config = config_of(source, **options)
    known = add_evidence(model, samples, examples or [example_of(city)], lam, config, PIECE, sandbox)
    return add_student(model, known, lam, config)


def with_weight(sample, condition) -> str:
    return said(sample, [i for i, weight in enumerate(sample.weight.tolist()) if condition(weight)]).replace(" ", "")


@pytest.mark.parametrize("source", ["oracle_diff", "sibling_contrast"])
def test_a_difference_moves_credit_to_the_wrong_tokens_and_to_the_tag_that_came_too_early(model, city, source):
    wrong, right, short, silent = weighed(model, group(), city, source)
    assert with_weight(wrong, lambda w: w > 1) == "people"
    assert with_weight(wrong, lambda w: w < 1) == "SELECTnameFROMcityWHERE>5</solution>"
    assert with_weight(short, lambda w: w > 1) == "</solution>"
    assert with_weight(short, lambda w: w < 1) == "SELECTnameFROMcity"
    assert wrong.weight.max().item() == pytest.approx(1.1) and wrong.weight.min().item() == pytest.approx(0.9)
    for sample in (right, silent):
        assert (sample.weight == 1).all() and torch.isnan(sample.evidence).all()


def test_a_group_of_another_question_is_not_looked_at(model, city):
    failures = [sample_of(WRONG, False, -1.0), sample_of("SELECT 1", True, 1.0)]
    successes = [sample_of(GOLD, True, 1.0), sample_of("SELECT area FROM city", False, -1.0)]
    examples = [example_of(city), example_of(city, "SELECT 1", "2")]
    first, *_ = weighed(model, failures + successes, city, "sibling_contrast", examples=examples)
    assert "name" in with_weight(first, lambda w: w > 1)  # against SELECT 1, not against the other group's success
    _, _, _, fourth = weighed(model, failures + successes, city, "oracle_diff", examples=examples)
    assert "area" in with_weight(fourth, lambda w: w > 1)  # against SELECT 1, its own question's gold


@pytest.mark.parametrize("source", ["surprisal", "entropy"])
def test_the_students_own_numbers_move_credit_to_its_unsure_tokens_for_either_outcome(model, city, source):
    samples = weighed(model, group(), city, source)
    entropies = sample_entropies(model, samples, config_of(source))
    for sample, entropy in list(zip(samples, entropies))[:3]:
        action = torch.tensor(sample.trajectory.action_mask, dtype=torch.bool)
        share = (-sample.student if source == "surprisal" else entropy)[action]
        moved = sample.weight[action] - 1.0
        assert torch.equal(moved > 0, share > share.mean()) and (moved > 0).any() and (moved < 0).any()
        assert (sample.weight[~action] == 1).all() and sample.evidence[action].mean().abs() < 1e-5
        expected = (share - share.mean()) * (1 if sample.correct else -1)
        torch.testing.assert_close(sample.evidence[action], expected)
    assert (samples[3].weight == 1).all()


@pytest.mark.parametrize("scope", ["action", "final_only", "all", "none"])
@pytest.mark.parametrize("source", ["oracle_diff", "surprisal", "parts", "parts_surprisal"])
def test_sources_share_the_mask_scope(model, city, sandbox, source, scope):
    sample, *_ = weighed(model, group(), city, source, sandbox=sandbox, mask=scope)
    query, final = sample.trajectory.turns
    inside = {i for i, weight in enumerate(sample.weight.tolist()) if weight != 1}
    allowed = {"action": {*range(*query.sql), *range(*final.sql)}, "final_only": set(range(*final.sql)),
               "all": {*range(*query.action), *range(*final.action)}, "none": set()}[scope]
    if source in ("oracle_diff", "parts"):  # the closing tag can be where a difference lies, and is no part
        allowed = allowed and set(scope_of(sample) if source == "oracle_diff" else range(*final.sql))
    assert inside == allowed


@pytest.mark.parametrize("share", [True, False])
def test_entropy_is_that_of_the_whole_distribution_before_each_token_at_the_sampling_temperature(model, share):
    sample, *_ = group()
    config = config_of("entropy")
    config = replace(config, model=replace(config.model, shared_prefix=share))
    for temperature in (1.0, 0.7):
        at = replace(config, rollout=replace(config.rollout, temperature=temperature))
        (entropy, other) = sample_entropies(model, [sample, group()[2]], at)
        ids = sample.trajectory.token_ids
        for turn in sample.trajectory.turns:
            for place in (turn.action[0], turn.action[1] - 1):
                with torch.no_grad():
                    logits = model(torch.tensor([ids[:place]])).logits[0, -1].double() / temperature
                p = logits.softmax(-1)
                assert entropy[place].item() == pytest.approx(-(p * p.log()).sum().item(), abs=1e-4)
        assert torch.isnan(entropy[torch.tensor(sample.trajectory.loss_mask) == 0]).all()
        assert len(other) == len(group()[2].trajectory)
        assert entropy.nan_to_num(1.0).min() > 0 and entropy.nan_to_num(0.0).max() <= math.log(len(TOKENIZER))


@pytest.mark.parametrize("source", SOURCES)
def test_lambda_zero_is_grpo_bit_for_bit_and_lambda_moves_only_what_has_evidence(city, sandbox, source):
    def trained(config: Config, lam: float) -> torch.Tensor:
        model = tiny_model(len(TOKENIZER))
        engine = TorchEngine(model, 1e-3, 0.0, 1.0, lambda step: 1.0)
        known = add_evidence(model, group(), [example_of(city)], lam, config, PIECE, sandbox)
        _, samples = update(engine, known, lam, config)
        assert all((sample.weight == 1).all() for sample in samples) == (lam == 0.0 or source == "none")
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    config = config_of(source)
    model = tiny_model(len(TOKENIZER))
    update(TorchEngine(model, 1e-3, 0.0, 1.0, lambda step: 1.0), group(), 0.0, Config())
    grpo = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    assert torch.equal(trained(config, 0.0), grpo)
    assert torch.equal(trained(config, 0.5), grpo) == (source == "none")


def test_at_lambda_zero_no_pass_of_any_model_and_no_sql_runs(model, city):
    calls = []
    hook = model.register_forward_hook(lambda *_: calls.append(1))
    for source in SOURCES:
        known = add_evidence(model, group(), [example_of(city)], 0.0, config_of(source), PIECE, sandbox=None)
        assert not any(sample.hindsight_mask.any() for sample in known)
    hook.remove()
    assert calls == []
    with pytest.raises(ValueError, match="teacher_gap"):
        add_evidence(model, group(), [example_of(city)], 0.5, config_of("teacher_gap"), PIECE, sandbox=None)
