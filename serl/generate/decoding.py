"""Decoding many rows that continue shared prompts, one token at a time: for sampling, without gradients.

A row's queries attend to their prompt's keys and to the row's own; with o and lse the outputs and log-sum-exps of the
two softmaxes,

    o = o_own + σ(lse_prompt − lse_own) (o_prompt − o_own)

is the softmax over both, exactly. Rows have few queries here and there are many of them: all prompts of a batch take
part in one product, padded to one length. (For many queries a row, and gradients: `serl.prefix_attention`.)
"""

from collections.abc import Sequence

import torch

from serl.backbone import Backbone
from serl.prefix_attention import attend_part, bias_of
from serl.shared_prefix import Prompts, attending


class Memory:
    """What rows remember of their own tokens while they are decoded: room for `capacity` of them."""

    def __init__(self, mask_BS: torch.Tensor, capacity: int) -> None:
        """`mask_BS`: which of the first S columns hold a token (rows are padded on the left); later ones all do."""
        self.mask_BC = torch.cat([mask_BS, mask_BS.new_ones(len(mask_BS), capacity - mask_BS.shape[1])], dim=1)
        self.padded = not bool(mask_BS.all())
        self.used = 0
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

    def extend(self, layer: int, key_BKQD: torch.Tensor, value_BKQD: torch.Tensor
               ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Keys and values of all tokens so far, [B, K, S, D], and which the new ones may see, [B, Q, S] (None: all)."""
        batch, heads, queries, width = key_BKQD.shape
        if layer == len(self.keys):
            shape = (batch, heads, self.mask_BC.shape[1], width)
            self.keys.append(key_BKQD.new_empty(shape))
            self.values.append(value_BKQD.new_empty(shape))
        end = self.used + queries
        self.keys[layer][:, :, self.used: end] = key_BKQD
        self.values[layer][:, :, self.used: end] = value_BKQD
        mask_BQS = self.mask_BC[:, None, :end] if self.padded or queries > 1 else None
        if queries > 1:
            # A padding column sees itself, so that its softmax is defined; nothing sees it.
            diagonal = torch.eye(queries, end, dtype=torch.bool, device=mask_BQS.device)
            mask_BQS = (mask_BQS & torch.ones_like(diagonal).tril()) | diagonal
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end], mask_BQS

    def select(self, index: torch.Tensor) -> None:
        """Keep the rows at `index`."""
        self.mask_BC = self.mask_BC[index]
        for tensors in (self.keys, self.values):
            tensors[:] = [tensor[index] for tensor in tensors]


class DecodingRows:
    """B rows that continue prompts: row b continues prompt `owner[b]`."""

    def __init__(self, model, prompts: Sequence[Sequence[int]], owner: Sequence[int], memory: Memory) -> None:
        self.model, self.memory = model, memory
        self.keys, self.values, mask_UP = _together(Prompts(Backbone(model), prompts))
        self.bias_U11P = None if mask_UP is None else bias_of(mask_UP, self.keys[0].dtype)[:, None, None]
        self.assign(owner)

    def assign(self, owner: Sequence[int]) -> None:
        """Say anew which prompts the rows continue (after rows were dropped); prompts without rows are forgotten."""
        of: dict[int, list[int]] = {}
        for row, prompt in enumerate(owner):
            of.setdefault(prompt, []).append(row)
        group = max(map(len, of.values()))
        device = self.model.device
        # Slot (u, g) holds the g-th row of the u-th prompt; short groups are filled up with a row that is dropped.
        self.slots = torch.tensor([rows + rows[:1] * (group - len(rows)) for rows in of.values()], device=device)
        place = {row: u * group + g for u, rows in enumerate(of.values()) for g, row in enumerate(rows)}
        self.places = torch.tensor([place[row] for row in range(len(owner))], device=device)
        if list(of) != list(range(len(self.keys[0]))):
            used = torch.tensor(list(of), device=device)
            for tensors in (self.keys, self.values):
                tensors[:] = [tensor[used] for tensor in tensors]
            self.bias_U11P = None if self.bias_U11P is None else self.bias_U11P[used]
        number = {prompt: unit for unit, prompt in enumerate(of)}
        self.owner = [number[prompt] for prompt in owner]

    def logits(self, ids_BQ: torch.Tensor, position_BQ: torch.Tensor, keep: int = 0) -> torch.Tensor:
        """Logits [B, Q, V] (of the last `keep` columns, if given) after each of the next tokens of the rows."""
        with attending(Backbone(self.model)):
            output = self.model(input_ids=ids_BQ, position_ids=position_BQ, use_cache=False, logits_to_keep=keep,
                                shared_rows=self)
        self.memory.used += ids_BQ.shape[1]
        return output.logits

    def attend(self, layer: int, query_BHQD: torch.Tensor, key_BKQD: torch.Tensor, value_BKQD: torch.Tensor,
               scaling: float) -> torch.Tensor:
        """Attention of new tokens to their prompt and their row, [B, H, Q, D]."""
        batch, heads, queries, width = query_BHQD.shape
        shared = key_BKQD.shape[1]
        key_BKQD, value_BKQD, mask_BQS = self.memory.extend(layer, key_BKQD, value_BKQD)
        # The heads that share a key head (grouped-query attention) are folded too: [B, K, heads/K · Q, D].
        query_BKND = (query_BHQD * scaling).reshape(batch, shared, -1, width)
        bias = None if mask_BQS is None else bias_of(mask_BQS, query_BHQD.dtype)[:, None].repeat(
            1, 1, heads // shared, 1)
        own_BKND, own_lse = attend_part(query_BKND, key_BKQD, value_BKQD, bias)

        units, group = self.slots.shape
        folded = query_BKND[self.slots.flatten()].unflatten(0, (units, group)).transpose(1, 2).flatten(2, 3)
        prompt, lse = (found.unflatten(2, (group, -1)).transpose(1, 2).flatten(0, 1)[self.places]
                       for found in attend_part(folded, self.keys[layer], self.values[layer], self.bias_U11P))
        merged = own_BKND + torch.sigmoid(lse - own_lse).to(own_BKND.dtype) * (prompt - own_BKND)
        return merged.view(batch, heads, queries, width)


def _together(prompts: Prompts) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor | None]:
    """Keys and values of all prompts in one tensor a layer, [U, K, P, D], and which columns hold tokens (None: all)."""
    longest, order = max(prompts.lengths), [number for batch in prompts.batches for number in batch]
    back = torch.tensor(sorted(range(len(order)), key=order.__getitem__), device=prompts.backbone.device)
    out = []
    for layers in (prompts.keys, prompts.values):
        for layer, parts in enumerate(layers if order != list(range(len(order))) or len(prompts.batches) > 1 else ()):
            padded = [torch.nn.functional.pad(part, (0, 0, 0, longest - part.shape[2])) for part in parts]
            layers[layer] = [torch.cat(padded)[back]]  # in place: the parts of a layer go as soon as it is together
        out.append([tensors[0] for tensors in layers])
    length_U = torch.tensor(prompts.lengths, device=back.device)
    mask_UP = torch.arange(longest, device=back.device) < length_U[:, None]
    return *out, None if bool(mask_UP.all()) else mask_UP
