"""Gradient checkpointing: of what a layer computed only its input is kept, the backward pass computes the rest again.

    memory of activations:  layers · (input + all within a layer)  →  layers · input + all within one layer
    forward passes:         1  →  2                                                            (arXiv 1604.06174)

The layers are wrapped here, not by `gradient_checkpointing_enable`: that works in training mode only, where dropout is
on, and it would forget by what a layer attended, so that prompts could not be shared. Passes without gradient are as
they were.
"""

from functools import partial

import torch
from torch.utils.checkpoint import checkpoint

from serl.backbone import Backbone
from serl.errors import InputError
from serl.shared_prefix import attending_by


def recompute_layers(model) -> None:
    """Have the layers of `model` forget; InputError where they cannot be told from what is around them."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    backbone = Backbone(model)
    layers = [module for module in backbone.decoder.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise InputError(f"config: model.gradient_checkpointing: {type(model).__name__} has no layers that can be "
                         "computed again; set it to false")
    for layer in layers:
        layer.forward = _Forgetting(layer, backbone.config)


class _Forgetting:
    """A layer's `forward`. An object, not a function, so that a copy of the model calls its own layers."""

    def __init__(self, layer: torch.nn.Module, config) -> None:
        self.layer, self.config = layer, config

    def __call__(self, *args, **kwargs):
        forward = partial(type(self.layer).forward, self.layer)
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        attention = self.config._attn_implementation

        def as_now(*args, **kwargs):  # the backward pass comes when the model attends as usual again
            with attending_by(self.config, attention):
                return forward(*args, **kwargs)

        return checkpoint(as_now, *args, use_reentrant=False, **kwargs)
