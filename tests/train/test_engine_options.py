"""What goes with which engine: combinations that would say nothing, or could not work, are refused in one line."""

import pytest
import torch

from serl.config import Config, load_config
from serl.errors import InputError
from serl.train import engines
from serl.train.engines import make_engine


def config(**options) -> Config:
    return load_config(None, [(name.replace("__", "."), str(value)) for name, value in options.items()])


@pytest.mark.parametrize("options, says", [
    ({"engine__zero": 2}, "engine.zero 2 needs engine.kind deepspeed"),
    ({"engine__offload": "optimizer"}, "engine.offload optimizer needs engine.kind deepspeed"),
    ({"engine__kind": "deepspeed"}, "needs engine.zero 1, 2 or 3"),
    ({"engine__kind": "deepspeed", "engine__zero": 4}, "engine.zero is 4"),
    ({"engine__kind": "deepspeed", "engine__zero": 2, "engine__offload": "parameters"}, "needs engine.zero 3"),
    ({"engine__kind": "deepspeed", "engine__zero": 1, "train__grad_clip": 0}, "train.grad_clip must be above 0"),
    ({"engine__kind": "deepspeed", "engine__zero": 3, "rollout__overlap": 1, "train__tis": "token"}, "rollout.overlap"),
    ({"engine__kind": "deepspeed", "engine__zero": 2, "hindsight__teacher__mode": "live"}, "train.score_first true"),
    ({"engine__timeout_s": 0}, "engine.timeout_s is 0"),
])
def test_what_does_not_go_together_is_refused(options, says):
    with pytest.raises(InputError, match=says):
        config(**options)


def test_what_goes_together_is_not():
    for options in ({"zero": 1}, {"zero": 1, "offload": "optimizer"}, {"zero": 3, "offload": "parameters"}):
        config(engine__kind="deepspeed", **{f"engine__{name}": value for name, value in options.items()})
    live = {"engine__kind": "deepspeed", "engine__zero": 3, "hindsight__teacher__mode": "live"}
    config(**live, train__score_first=True)
    config(**live, model__shared_prefix=False)
    config(**live, train__loss="distillation")


def test_without_deepspeed_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install"):
        make_engine(config(engine__kind="deepspeed", engine__zero=1), torch.nn.Linear(2, 2), lambda step: 1.0)
