"""Prompts that many rows share, encoded once for all of them.

The N trajectories of a question, and the teacher's branches of each, begin with the same long prompt. Here each
distinct prompt is encoded once, and only what follows it is encoded per row (`shared_rows`). Gradients flow into
the prompt. Works with every Hugging Face model whose attention goes through `ALL_ATTENTION_FUNCTIONS` and is plain and
causal (`serl.train.obstacle` finds out).

Keys and values are caught where the model hands them to its attention, so that no cache of the library takes part.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Protocol

import torch

from serl.backbone import Backbone
from serl.errors import InputError
from serl.prefix_attention import Span
from serl.ragged import pad

NAME = "serl_shared_prefix"
Embed = Callable[[torch.Tensor], torch.Tensor]


class Attention(Protocol):
    """What a forward pass attends by."""

    def attend(self, layer: int, query_BHQD: torch.Tensor, key_BKQD: torch.Tensor, value_BKQD: torch.Tensor,
               scaling: float) -> torch.Tensor:
        """Attention of the tokens of this pass, [B, H, Q, D]."""


class Prompts:
    """Keys and values of U distinct prompts, in batches of similar length: `keys[layer][batch]` is [U', K, P, D].

    Padding is on the right, where causal attention never looks: no mask is needed.
    """

    def __init__(self, backbone: Backbone, prompts: Sequence[Sequence[int]], embed: Embed | None = None) -> None:
        self.backbone, self.embed = backbone, embed or backbone.embedding
        self.lengths = [len(prompt) for prompt in prompts]
        self.batches = backbone.passes(self.lengths)
        recorded = []
        for batch in self.batches:
            ids_UP = pad([prompts[number] for number in batch], 0, torch.long, self.backbone.device)
            attention = _Causal(backbone.layers - 1)
            position_1P = torch.arange(ids_UP.shape[1], device=ids_UP.device)[None]
            encode(self.backbone, self.embed(ids_UP), position_1P, attention)
            recorded.append(attention.recorded())
        self.keys, self.values = ([list(layer) for layer in zip(*batches)] for batches in zip(*recorded))
        self._place = {number: (batch, index) for batch, members in enumerate(self.batches)
                       for index, number in enumerate(members)}

    def spans(self, owner: Sequence[int]) -> list[Span]:
        """Which rows attend to which prompt, where row b continues prompt `owner[b]`; rows of a prompt in a run."""
        spans, first = [], 0
        for number, rows in groupby(owner):
            last = first + len(list(rows))
            spans.append(Span(first, last, *self._place[number], self.lengths[number]))
            first = last
        return spans


class _Causal:
    """Plain causal attention; keeps the keys and values, which are all that is asked for."""

    def __init__(self, last_layer: int) -> None:
        self.last_layer = last_layer
        self._made: tuple[list[torch.Tensor], list[torch.Tensor]] | None = ([], [])

    def recorded(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Keys and values by layer. It keeps neither them nor those of layers that are computed again."""
        made, self._made = self._made, None
        return made

    def attend(self, layer: int, query_BHQD: torch.Tensor, key_BKQD: torch.Tensor, value_BKQD: torch.Tensor,
               scaling: float) -> torch.Tensor:
        if self._made is not None:
            for made, tensor in zip(self._made, (key_BKQD, value_BKQD)):
                made.append(tensor)
        if layer == self.last_layer:  # what would follow from its output, nobody reads
            return torch.zeros_like(query_BHQD)
        return torch.nn.functional.scaled_dot_product_attention(
            query_BHQD, key_BKQD, value_BKQD, is_causal=True, scale=scaling, enable_gqa=True)


def encode(backbone: Backbone, embedded_BLD: torch.Tensor, position_BL: torch.Tensor, attention: Attention
           ) -> torch.Tensor:
    """Final hidden states [B, L, D] of tokens that attend by `attention`."""
    with attending(backbone):
        return backbone.decoder(inputs_embeds=embedded_BLD, position_ids=position_BL, use_cache=False,
                                shared_rows=attention).last_hidden_state


@contextmanager
def attending(backbone: Backbone) -> Iterator[None]:
    """Have the model attend by its argument `shared_rows`; as no mask is registered for it, the library makes none."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attend)
    with attending_by(backbone.config, NAME):
        yield


@contextmanager
def attending_by(config, name: str) -> Iterator[None]:
    """Have a model with this config use the attention that the library knows by `name`."""
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


def _attend(module, query, key, value, attention_mask, scaling: float, shared_rows: Attention, **options: Any):
    for name in ("sliding_window", "softcap", "s_aux", "dropout"):
        if options.get(name):
            raise InputError(f"{type(module).__name__} has {name}")
    output = shared_rows.attend(module.layer_idx, query, key, value, scaling)
    return output.transpose(1, 2), None
