"""The parts of a causal language model that shared computation calls one by one: embedding, decoder, head.

Also of one that PEFT has wrapped: LoRA's layers sit inside the modules that are found here.
"""

from collections.abc import Iterable, Sequence

import torch

from serl.partition import together
from serl.ragged import buckets

# Options of model configs that change logits after the head: hidden states and head are then not all there is to them.
_LOGIT_OPTIONS = {"final_logit_softcapping": None, "logit_scale": 1.0, "logits_scaling": 1.0}
# And those that have some layers see less than all tokens before them: many models say so by the mask alone.
_WINDOWS = ("sliding_window", "attention_chunk_size")


class Backbone:
    """`decoder` gives hidden states, `head` (a Linear layer) makes logits of them; `config` is the model's."""

    def __init__(self, model) -> None:
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model  # PEFT's wrapper, or none
        self.config = inner.config
        self.decoder = inner.base_model
        self.embedding = inner.get_input_embeddings()
        self.head = inner.get_output_embeddings()
        self.together = together(model)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    @property
    def layers(self) -> int:
        return self.config.get_text_config().num_hidden_layers

    def passes(self, lengths: Sequence[int]) -> list[list[int]]:
        """Which rows go through the layers at once: those of similar length, or all, where ranks pass together."""
        return [list(range(len(lengths)))] * bool(lengths) if self.together else list(buckets(lengths))

    def obstacle(self) -> str | None:
        """What keeps log-probs from being computed by parts, as far as the config and the modules tell."""
        if not isinstance(self.head, torch.nn.Linear):
            return f"its head is a {type(self.head).__name__}, not a Linear layer"
        options = self.config.get_text_config()
        for name, neutral in _LOGIT_OPTIONS.items():
            if getattr(options, name, neutral) not in (neutral, None):
                return f"it changes its logits by {name}"
        kinds = set(getattr(options, "layer_types", None) or ())  # empty: the model has no word for it
        for name in _WINDOWS:
            if getattr(options, name, None) and kinds != {"full_attention"}:
                return f"its attention sees a window of the tokens before it ({name})"
        if getattr(options, "attention_dropout", 0.0) or any(
                isinstance(module, torch.nn.Dropout) and module.p > 0 for module in self.decoder.modules()):
            return "it has dropout, which would differ from the plain way's"
        return None


class Lookup:
    """The embedding of a batch's tokens, looked up once.

    The gradient of each look-up in a table [V, D] is a table of its own: with a large vocabulary they would be most of
    a small update. Here all passes of a batch look up in the batch's own distinct tokens.
    """

    def __init__(self, backbone: Backbone, sequences: Iterable[Iterable[int]]) -> None:
        distinct = sorted({token for sequence in sequences for token in sequence})
        self.ids_S = torch.tensor(distinct, device=backbone.device)
        self.table_SD = backbone.embedding(self.ids_S)

    def __call__(self, ids_BL: torch.Tensor) -> torch.Tensor:
        """Embeddings [B, L, D]; those of padding are any token's."""
        index_BL = torch.searchsorted(self.ids_S, ids_BL).clamp(max=len(self.ids_S) - 1)
        return torch.nn.functional.embedding(index_BL, self.table_SD)
