"""The trainer's weights as an engine takes them: by their names in a checkpoint, in a file, one update at a time."""

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from serl.generate.vllm.fingerprint import of_weight
from serl.partition import gathered


def checkpoint_weights(model, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """Every weight of `model` in `dtype`, without gradient, one at a time.

    Adapters are added to the weights of their layer. A head that is tied to the embedding is the embedding: it does
    not come a second time. A partitioned weight is whole on every rank while it is the turn; each must ask for it.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    adapted = {name: layer for name, layer in model.named_modules() if isinstance(layer, BaseTunerLayer)}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            layer = adapted.get(_layer_of(name, adapted))
            if layer is None:
                with gathered(weight):
                    yield name, weight.detach().to(dtype)
            elif ".base_layer." in name:
                with gathered(*layer.parameters()):
                    merged = weight.detach()
                    if name.endswith(".weight"):
                        merged = (merged + layer.get_delta_weight("default")).to(weight.dtype)  # rounded once
                    yield name.replace(".base_layer.", "."), merged.to(dtype)


def write_weights(folder: Path, model, dtype: torch.dtype, version: str) -> tuple[Path, dict[str, list[float]]]:
    """A safetensors file in `folder`, whole or not there, and the weights' fingerprints.

    Files of other versions are removed. The fingerprints [s, n] are of every weight in `dtype`, as an engine should
    have it; of a tied head too, since an engine may hold a copy of it.
    """
    from safetensors.torch import save_file

    path = folder / f"weights_{version}.safetensors"
    part = folder / f".{path.name}.part"
    weights, prints = {}, {}
    for name, weight in checkpoint_weights(model, dtype):
        weights[name], prints[name] = weight.contiguous().cpu(), of_weight(weight)
    save_file(weights, part)
    for old in folder.glob("weights_*.safetensors"):
        old.unlink()
    os.replace(part, path)
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if head is not None and head.weight is embedding.weight:
        names = {id(module): name for name, module in model.named_modules()}
        prints[f"{names[id(head)]}.weight"] = prints[f"{names[id(embedding)]}.weight"]
    return path, prints


def _layer_of(name: str, adapted: dict) -> str | None:
    """The adapted layer that a parameter belongs to, if any: `...q_proj` of `...q_proj.lora_A.default.weight`."""
    while name:
        name = name.rpartition(".")[0]
        if name in adapted:
            return name
    return None
