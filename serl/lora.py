"""Low-rank adapters (LoRA, arXiv 2106.09685) beside frozen weights.

    W x + (alpha / r) B A x          A [r, in] random, B [out, r] zero at first: a new adapter changes nothing

They are peft's layers, put into the model in place, so that it stays the model of its class: shared prompts, sampling
and the gradient of a step need not know of them. Only A and B are trained, in float32 whatever the precision of W, and
only they are saved, in peft's own format; the folder names the base model as `model.path` does.

A `model.path` with an adapter goes on with it where `model.lora.rank` is its rank. With rank 0 it is an ordinary model,
the adapter added to its weights. The teacher of a run is a copy of the adapter; the KL reference is the model with its
new adapter switched off, or, in a run that went on with one, a copy of that (`serl.model.Snapshot`). Of the base model
there is never a second copy.
"""

import os
from pathlib import Path

from serl.config import LoraConfig
from serl.errors import InputError
from serl.io import read_json

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."  # of the names in peft's files


def is_adapter(path: str | Path) -> bool:
    """Whether `path` is a folder that holds an adapter instead of a whole model."""
    return (Path(path) / CONFIG).is_file()


def base_of(folder: str) -> str:
    """The `model.path` of the weights that the adapter in `folder` belongs to."""
    base = _settings(folder).get("base_model_name_or_path")
    if not isinstance(base, str):
        raise InputError(f"{folder}: {CONFIG} does not name the base model (base_model_name_or_path)")
    return base


def add(model, options: LoraConfig, base: str, seed: int) -> None:
    """Freeze `model` and put a new adapter into it; `base` is the model's own `model.path`."""
    import peft
    import torch

    config = peft.LoraConfig(r=options.rank, lora_alpha=options.alpha, lora_dropout=0.0, task_type="CAUSAL_LM",
                             target_modules=_targets(model, options.targets))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        _put(model, config)
    config.base_model_name_or_path = os.path.abspath(base) if Path(base).is_dir() else base


def attach(model, folder: str, options: LoraConfig) -> None:
    """Put the adapter in `folder` into `model`, to go on with it; it must be of the rank that `options` ask for."""
    config = _read(folder)
    if (config.r, config.lora_alpha) != (options.rank, options.alpha):
        raise InputError(f"{folder}: its adapter has rank {config.r} and alpha {config.lora_alpha}, model.lora has "
                         f"{options.rank} and {options.alpha}; set these, or rank 0 to add it to the weights")
    _load(model, folder, config)


def merge(model, folder: str) -> None:
    """Add the adapter in `folder` to the weights of `model`, which stays an ordinary model, all of it trainable."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    _load(model, folder, _read(folder))
    for name, layer in list(model.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge()
            model.set_submodule(name, layer.get_base_layer())
    model.delete_adapter("default")
    model.requires_grad_(True)


def has_adapter(model) -> bool:
    """Whether `add` or `attach` put an adapter into this model."""
    return hasattr(model, "peft_config")


def is_own(name: str) -> bool:
    """Whether a weight of this name is an adapter's, not the model's beside it."""
    return ".lora_" in name


def save(model, folder: Path, state: dict | None = None) -> None:
    """Write the adapter of `model`, without the weights beside it, as peft reads it; `state` has whole weights."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    weights = {PREFIX + name: value.contiguous() for name, value in _weights(model, state).items()}
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    model.peft_config["default"].save_pretrained(folder)


def _weights(model, state: dict | None = None) -> dict:
    import peft

    # "auto" would ask the hub whether the base model's vocabulary has changed.
    return peft.get_peft_model_state_dict(model, state, save_embedding_layers=False)


def _targets(model, names: tuple[str, ...]) -> str | list[str]:
    import torch

    if names == ("all-linear",):
        return names[0]
    head = model.get_output_embeddings()
    linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)
              and module is not head]
    for target in names:
        if not any(f".{name}".endswith(f".{target}") for name in linear):
            known = ", ".join(dict.fromkeys(name.rpartition(".")[2] for name in linear))
            raise InputError(f"config: model.lora.targets has {target!r}, which is no linear layer (but for the head) "
                             f"of {type(model).__name__}; it has {known}")
    return list(names)


def _settings(folder: str) -> dict:
    settings = read_json(Path(folder) / CONFIG)
    if not isinstance(settings, dict):
        raise InputError(f"{Path(folder) / CONFIG}: not the settings of an adapter")
    return settings


def _read(folder: str):
    import peft

    settings = _settings(folder)
    if settings.get("peft_type") != "LORA" or settings.get("lora_dropout") or settings.get("modules_to_save"):
        raise InputError(f"{folder}: only plain LoRA adapters can be used, without dropout and modules_to_save")
    return peft.LoraConfig.from_pretrained(folder)


def _load(model, folder: str, config) -> None:
    # Not transformers' own `load_adapter`: after it, a merged model would be saved under names that nobody reads.
    import peft
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        saved = load_file(Path(folder) / WEIGHTS)
        weights = {name.removeprefix(PREFIX): value for name, value in saved.items()}
        base, config.inference_mode = config.base_model_name_or_path, False
        _put(model, config)
        config.base_model_name_or_path = base
        wrong = weights.keys() ^ _weights(model).keys()
        if wrong:
            raise ValueError(f"it does not fit the model, see {min(wrong)}")
        peft.set_peft_model_state_dict(model, weights)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{folder}: its adapter cannot be loaded: {_first_line(error)}") from error


def _put(model, config) -> None:
    """An adapter in `model`, in float32 before it gets values: 16 bits would round them, and lose small updates."""
    import torch

    model.add_adapter(config)
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.to(torch.promote_types(weight.dtype, torch.float32))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
