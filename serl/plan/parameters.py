"""How many parameters a model has: counted on the model itself, built by transformers without data (device "meta").

    total      each parameter once, so a head that is tied to the embedding is not counted again
    trained    total; with adapters of rank r, instead, r (in + out) for each linear layer that has one
    body       total without embedding and head: what every token is multiplied with
    largest    of the parts that ZeRO-3 gathers at a time: embedding, head, one layer
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from serl.errors import InputError
from serl.io import read_json
from serl.model import resolve
from serl.plan.known import models


@dataclass(frozen=True)
class Counts:
    """Parameters of a model's parts, and the sizes that memory and time follow from."""

    total: int
    trained: int
    embedding: int
    head: int  # 0 where it is tied to the embedding
    layers: int
    layer: int  # of the largest layer
    tensor: int  # of the largest trained tensor
    width: int
    vocabulary: int
    heads: int
    kv_heads: int
    head_dim: int

    @property
    def body(self) -> int:
        return self.total - self.embedding - self.head

    @property
    def largest(self) -> int:
        return max(self.embedding, self.head, self.layer)

    def kv_bytes(self, bytes_each: int) -> int:
        """Keys and values of one token: 2 · layers · key heads · head size · bytes."""
        return 2 * self.layers * self.kv_heads * self.head_dim * bytes_each


def read_config(model: str, vocabulary: int | None = None):
    """The transformers config of a known name, a config.json, or whatever `model.path` may be."""
    from transformers import AutoConfig

    try:
        if model in models():
            config = config_of_fields(models()[model]["config"])
        elif model.endswith(".json"):
            config = config_of_fields(_fields(Path(model)))
        else:
            source, gguf = resolve(model)
            more = {} if gguf is None else {"gguf_file": gguf}
            local = os.environ.get("SERL_ALLOW_DOWNLOAD") != "1"
            config = AutoConfig.from_pretrained(source, local_files_only=local, **more)
    except (OSError, ValueError, KeyError, TypeError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError(f"--model {model}: no config can be read ({first}); give a config.json, a folder with one, or "
                         f"a known name: {', '.join(models())}") from error
    if vocabulary is not None:
        if vocabulary < 1:
            raise InputError(f"--vocab {vocabulary}: must be at least 1")
        config.get_text_config().vocab_size = vocabulary
    return config


def with_layers(config, layers: int):
    """The config of the same model with another number of layers; kinds of layers go on as they begin."""
    fields = config.to_dict() | {"num_hidden_layers": layers}
    if kinds := fields.get("layer_types"):
        fields["layer_types"] = (kinds * layers)[:layers]
    return type(config).from_dict(fields)


def build(config, dtype: str = "float32"):
    """The model on the meta device: shapes alone."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    try:
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype), attn_implementation="sdpa")
    except (ValueError, TypeError, AttributeError, RuntimeError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError(f"--model: a {type(config).__name__} makes no causal language model that can be planned "
                         f"({first})") from error


def count(config, rank: int = 0, targets: Sequence[str] = ("all-linear",)) -> Counts:
    """Counts of the model of `config`, with adapters of `rank`."""
    return count_model(build(config), rank, targets)


def count_model(model, rank: int, targets: Sequence[str]) -> Counts:
    """Counts of a model without adapters."""
    options = model.config.get_text_config()
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    sizes = [weight.numel() for weight in model.parameters()]
    layers = [sum(weight.numel() for weight in layer.parameters()) for layer in layers_of(model)]
    counts = Counts(
        total=sum(sizes), trained=sum(sizes), embedding=embedding.numel(),
        head=0 if head is embedding else head.numel(), layers=options.num_hidden_layers, layer=max(layers, default=0),
        tensor=max(sizes), width=options.hidden_size, vocabulary=embedding.shape[0],
        heads=options.num_attention_heads,
        kv_heads=getattr(options, "num_key_value_heads", None) or options.num_attention_heads,
        head_dim=getattr(options, "head_dim", None) or options.hidden_size // options.num_attention_heads)
    if not rank:
        return counts
    adapted = _adapted(model, targets)
    return replace(counts, trained=sum(rank * (linear.in_features + linear.out_features) for linear in adapted),
                   tensor=max(rank * max(linear.in_features, linear.out_features) for linear in adapted))


def _adapted(model, targets: Sequence[str]) -> list:
    """The linear layers that adapters go beside, as in `serl.lora`."""
    import torch

    head = model.get_output_embeddings()
    linear = {name: module for name, module in model.named_modules()
              if isinstance(module, torch.nn.Linear) and module is not head}
    if tuple(targets) == ("all-linear",):
        return list(linear.values())
    found = [module for name, module in linear.items() if any(f".{name}".endswith(f".{one}") for one in targets)]
    if not found:
        raise InputError(f"config: model.lora.targets {list(targets)} are no linear layers of this model")
    return found


def layers_of(model) -> list:
    """Its decoder's layers: the longest list of modules."""
    import torch

    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    return list(max(lists, key=len, default=()))


def _fields(path: Path) -> dict[str, Any]:
    fields = read_json(path)
    if not isinstance(fields, dict):
        raise InputError(f"{path}: not a model's config.json")
    return fields


def config_of_fields(fields: dict[str, Any]):
    """The config that a config.json with these fields describes."""
    from transformers import AutoConfig

    fields = dict(fields)
    kind = fields.pop("model_type", None)
    if kind is None:
        raise ValueError("it names no model_type")
    return AutoConfig.for_model(kind, **fields)
