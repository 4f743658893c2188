"""Options of losses and weights: refused combinations are named; defaults are the paper's."""

import pytest

from serl.config import Config, load_config
from serl.errors import InputError


@pytest.mark.parametrize(("overrides", "message"), [
    ({"train.loss": "ppo"}, "train.loss is 'ppo'; choose one of grpo"),
    ({"train.loss": "gspo"}, "train.loss gspo needs train.reduction seq_mean, not token_mean"),
    ({"train.loss": "dr_grpo"}, "train.loss dr_grpo needs train.reduction seq_sum"),
    ({"train.loss": "dapo", "train.reduction": "seq_sum"}, "train.loss dapo needs train.reduction token_mean"),
    ({"train.loss": "cispo", "train.reduction": "seq_mean"}, "train.loss cispo needs train.reduction token_mean"),
    ({"train.loss": "cispo", "train.dual_clip": 3}, "train.dual_clip has nothing to bound in cispo"),
    ({"train.dual_clip": 1}, "train.dual_clip is 1.0; it must be above 1"),
    ({"train.clip_low": 1.5}, "train.clip_low is 1.5; it must be between 0.0 and 1.0"),
    ({"train.clip_high": -0.1}, "train.clip_high is -0.1; it must be at least 0.0"),
    ({"train.tis": "geometric"}, "train.tis is 'geometric'; choose one of off, token, sequence, mask"),
    ({"train.tis_cap": 0.5}, "train.tis_cap is 0.5; it must be at least 1.0"),
    ({"train.tis_floor": 1.5}, "train.tis_floor is 1.5; it must be between"),
    ({"hindsight.map": "exp"}, "hindsight.map is 'exp'; choose one of clip, tanh, logsym"),
    ({"hindsight.normalize": "std"}, "hindsight.normalize"),
    ({"hindsight.sign_scope": "zero"}, "hindsight.sign_scope"),
    ({"hindsight.gap": "student"}, "hindsight.gap"),
    ({"hindsight.mask": "sql"}, "hindsight.mask is 'sql'; choose one of action"),
    ({"hindsight.schedule": "cosine"}, "hindsight.schedule"),
    ({"hindsight.warmup_updates": -1}, "hindsight.warmup_updates is -1; it must be at least 0"),
    ({"hindsight.schedule": "fraction", "hindsight.decay_fraction": 0.1, "hindsight.warmup_updates": 3},
     "hindsight.decay_fraction 0.1 of 30 updates leaves nothing after hindsight.warmup_updates 3"),
    ({"hindsight.source": "surprisal", "hindsight.gap": "hindsight_only"},
     "hindsight.gap plays no part in hindsight.source surprisal, which asks no teacher; leave it teacher_student"),
    ({"train.refill": -1}, "train.refill is -1; it must be at least 0"),
    ({"train.loss": "distillation", "train.reduction": "seq_mean"},
     "train.loss distillation needs train.reduction token_mean or seq_sum, not seq_mean"),
    ({"train.loss": "sdpo", "train.refill": 1}, "train.refill plays no part in train.loss sdpo.*leave it 0"),
    ({"train.loss": "sdpo", "train.kl_beta": 0.1}, "train.kl_beta plays no part in train.loss sdpo"),
    ({"train.loss": "distillation", "train.tis": "token"}, "train.tis plays no part in train.loss distillation"),
    ({"train.loss": "distillation", "train.dual_clip": 3}, "train.dual_clip plays no part.*leave it null"),
    ({"train.loss": "distillation", "hindsight.gap": "hindsight_only"}, "hindsight.gap plays no part"),
    ({"train.loss": "distillation", "hindsight.map": "tanh"}, "hindsight.map plays no part"),
    ({"train.loss": "sdpo", "hindsight.mask": "none"}, "hindsight.mask none leaves train.loss sdpo no token"),
    ({"train.loss": "distillation", "train.distill_over": "sampled"}, "sampled .* goes only with train.loss sdpo"),
    ({"train.loss": "sdpo", "train.distill_over": "sampled", "train.sdpo_symmetric": "true"}, "sdpo_symmetric false"),
    ({"train.distill_over": "sampled"}, "sampled .* goes only with train.loss sdpo"),
    ({"train.distill_over": "all"}, "train.distill_over is 'all'; choose one of vocabulary, topk, sampled"),
    ({"train.distill_k": 0}, "train.distill_k is 0; it must be at least 1"),
    ({"model.lora.rank": -1}, "model.lora.rank is -1; it must be at least 0"),
    ({"model.lora.rank": 8, "model.lora.dropout": 0.1}, "model.lora.dropout is 0.1; it must be 0"),
    ({"model.lora.alpha": 0}, "model.lora.alpha is 0.0; it must be above 0"),
    ({"model.lora.rank": 8, "model.lora.targets": "[]"}, "model.lora.targets is empty"),
    ({"model.lora.rank": 8, "model.path": "scratch"}, "model.path scratch has no weights to adapt"),
])
def test_wrong_options_are_named(overrides, message):
    with pytest.raises(InputError, match=message):
        load_config(None, [(key, str(value)) for key, value in overrides.items()])


@pytest.mark.parametrize("overrides", [
    {"train.loss": "gspo", "train.reduction": "seq_mean", "train.clip_low": "3e-4"},
    {"train.loss": "dr_grpo", "train.reduction": "seq_sum", "train.dual_clip": 3},
    {"train.loss": "grpo", "train.reduction": "seq_mean", "train.clip_high": 0.28},
    {"train.loss": "cispo", "train.tis": "mask"},
    {"hindsight.schedule": "fraction", "hindsight.warmup_updates": 3},
    {"hindsight.schedule": "fraction", "train.steps": 0},
    {"train.loss": "distillation", "train.distill_over": "topk", "hindsight.mask": "all"},
    {"train.loss": "sdpo", "train.distill_over": "sampled", "train.reduction": "seq_sum"},
    {"train.loss": "dapo", "train.refill": 3, "train.kl_beta": 0.01},
    {"model.lora.rank": 8, "model.lora.targets": "[q_proj, v_proj]"},
])
def test_combinations_that_make_sense_load(overrides):
    load_config(None, [(key, str(value)) for key, value in overrides.items()])


def test_defaults_are_the_papers():
    hindsight, train = Config().hindsight, Config().train
    assert (hindsight.map, hindsight.normalize, hindsight.sign_scope, hindsight.gap, hindsight.mask,
            hindsight.warmup_updates) == ("clip", "none", "both", "teacher_student", "action", 0)
    assert (train.loss, train.reduction, train.clip_low, train.clip_high, train.dual_clip, train.tis) == (
        "grpo", "token_mean", None, None, None, "off")
