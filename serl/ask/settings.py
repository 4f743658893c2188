"""With which config a checkpoint is asked.

A policy answers well only to prompts like those that it learned from. So its run's config counts: `config.yaml` in the
model's own folder, or beside it (`RUN/model`), or above it (`RUN/checkpoints/step_000096`); `--config` where there is
none, or instead. What a run says of training and of engines plays no part, so that asking never touches its servers.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from serl.config import Config, load_config
from serl.errors import InputError
from serl.model import EMBEDDED

_CONFIG = "config.yaml"
_LEFT_OUT = ("data", "rollout", "hindsight", "train", "engine", "sft", "teach", "tracking", "model.lora")


def config_for(checkpoint: str, file: Path | None, overrides: Sequence[tuple[str, str]]) -> Config:
    """The config to ask `checkpoint` with; InputError where it asks for what there is not without gold."""
    found = file or config_beside(checkpoint)
    if found is None:
        print(f"{checkpoint}: no {_CONFIG} beside it, so the defaults of every option; name a file by --config",
              file=sys.stderr)
    left_out = [] if file is not None else [(section, "{}") for section in _LEFT_OUT]
    own = [("model.path", checkpoint), ("model.gradient_checkpointing", "false")]
    config = load_config(found, [*left_out, *own, *overrides])
    if config.grounding.mode == "oracle":
        raise InputError(f"{found}: grounding.mode oracle needs gold, which there is not for questions of one's own; "
                         "add --grounding.mode hybrid --grounding.allow_gold false")
    return config


def config_beside(checkpoint: str) -> Path | None:
    """The config file that belongs to a model folder, if there is one."""
    folder = EMBEDDED if checkpoint == "embedded" else Path(checkpoint).absolute()
    places = [folder, folder.parent]
    if folder.parent.name == "checkpoints":
        places.append(folder.parent.parent)
    return next((place / _CONFIG for place in places if (place / _CONFIG).is_file()), None)
