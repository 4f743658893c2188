"""Attention to prompts that many rows share, computed once for all of them.

The N trajectories of a question, and the teacher's branches of each, begin with the same long prompt. Here each
distinct prompt is encoded once, and only what follows it is encoded per row. A row's queries attend to their
prompt's keys and to the row's own; with o and lse the outputs and log-sum-exps of the two softmaxes,

    o = o_own + σ(lse_prompt − lse_own) (o_prompt − o_own)

is the softmax over both, exactly. The prompt's keys are never copied per row: the queries of all rows of a prompt
are folded into one matrix instead. Gradients flow into the prompt. Works with every Hugging Face model whose
attention goes through `ALL_ATTENTION_FUNCTIONS` and is plain and causal (`check` refuses others).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from serl.errors import InputError
from serl.ragged import pad

NAME = "serl_shared_prefix"


class Prompts:
    """Keys and values of U distinct prompts, layer by layer, each [U, K, P, D], padded on the right."""

    def __init__(self, model, prompts: Sequence[Sequence[int]]) -> None:
        self.model = model
        self.lengths = [len(prompt) for prompt in prompts]
        ids_UP = pad(prompts, 0, torch.long, model.device)
        real_UP = pad([[True] * length for length in self.lengths], False, torch.bool, model.device)
        self.mask_UP = None if len(set(self.lengths)) == 1 else real_UP  # None: no padding
        output = model.base_model(input_ids=ids_UP, attention_mask=real_UP.long(), use_cache=True)
        layers = output.past_key_values.layers
        self.keys = [layer.keys for layer in layers]
        self.values = [layer.values for layer in layers]


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
            mask_BQS = (mask_BQS & _causal(queries, mask_BQS.device)) | diagonal
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end], mask_BQS

    def select(self, index: torch.Tensor) -> None:
        """Keep the rows at `index`."""
        self.mask_BC = self.mask_BC[index]
        for tensors in (self.keys, self.values):
            tensors[:] = [tensor[index] for tensor in tensors]


class Rows:
    """B rows that continue prompts: row b continues prompt `owner[b]`."""

    def __init__(self, prompts: Prompts, owner: Sequence[int], memory: Memory | None = None) -> None:
        self.prompts, self.memory = prompts, memory
        self.assign(owner)

    def assign(self, owner: Sequence[int]) -> None:
        """Say anew which prompts the rows continue (after rows were dropped)."""
        self.owner = list(owner)
        of: dict[int, list[int]] = {}
        for row, prompt in enumerate(self.owner):
            of.setdefault(prompt, []).append(row)
        group = max(map(len, of.values()))
        device = self.prompts.model.device
        # Slot (u, g) holds the g-th row of the u-th prompt; short groups are filled up with a row that is dropped.
        self.slots = torch.tensor([rows + rows[:1] * (group - len(rows)) for rows in of.values()], device=device)
        place = {row: u * group + g for u, rows in enumerate(of.values()) for g, row in enumerate(rows)}
        self.places = torch.tensor([place[row] for row in range(len(self.owner))], device=device)
        whole = list(of) == list(range(len(self.prompts.lengths)))
        self.used = None if whole else torch.tensor(list(of), device=device)

    def logits(self, ids_BQ: torch.Tensor, position_BQ: torch.Tensor, keep: int = 0) -> torch.Tensor:
        """Logits [B, Q, V] (of the last `keep` columns, if given) after each of the next tokens of the rows."""
        model = self.prompts.model
        with _attention(model):
            output = model(input_ids=ids_BQ, position_ids=position_BQ, use_cache=False, logits_to_keep=keep,
                           shared_rows=self)
        if self.memory is not None:
            self.memory.used += ids_BQ.shape[1]
        return output.logits

    def hidden(self, ids_BQ: torch.Tensor, position_BQ: torch.Tensor) -> torch.Tensor:
        """What the head makes these logits of, [B, Q, D]; for rows without memory."""
        model = self.prompts.model
        with _attention(model):
            return model.base_model(input_ids=ids_BQ, position_ids=position_BQ, use_cache=False,
                                    shared_rows=self).last_hidden_state

    def attend(self, layer: int, query_BHQD: torch.Tensor, key_BKQD: torch.Tensor, value_BKQD: torch.Tensor,
               scaling: float) -> torch.Tensor:
        """Attention of new tokens to their prompt and their row, [B, H, Q, D]."""
        batch, heads, queries, width = query_BHQD.shape
        shared = key_BKQD.shape[1]
        if self.memory is None:
            mask_BQS = _causal(queries, query_BHQD.device)[None]
        else:
            key_BKQD, value_BKQD, mask_BQS = self.memory.extend(layer, key_BKQD, value_BKQD)
        # The heads that share a key head (grouped-query attention) are folded too: [B, K, heads/K · Q, D].
        query_BKND = (query_BHQD * scaling).reshape(batch, shared, -1, width)
        own_BKND, own_lse = _part(query_BKND, key_BKQD, value_BKQD, mask_BQS, queries)

        units, group = self.slots.shape
        folded = query_BKND[self.slots.flatten()].unflatten(0, (units, group)).transpose(1, 2).flatten(2, 3)
        keys, values, mask_UP = self.prompts.keys[layer], self.prompts.values[layer], self.prompts.mask_UP
        if self.used is not None:
            keys, values = keys[self.used], values[self.used]
            mask_UP = None if mask_UP is None else mask_UP[self.used]
        prompt, lse = (part.unflatten(2, (group, -1)).transpose(1, 2).flatten(0, 1)[self.places]
                       for part in _part(folded, keys, values, None if mask_UP is None else mask_UP[:, None], 1))
        merged = own_BKND + torch.sigmoid(lse - own_lse).to(own_BKND.dtype) * (prompt - own_BKND)
        return merged.view(batch, heads, queries, width)


def _part(query_XKND: torch.Tensor, key_XKSD: torch.Tensor, value_XKSD: torch.Tensor,
          mask_XQS: torch.Tensor | None, queries: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax attention to one part of the keys, and its log-sum-exp [X, K, N, 1]; N is a multiple of `queries`."""
    scores = (query_XKND @ key_XKSD.transpose(-1, -2)).float()
    if mask_XQS is not None:
        scores = scores.unflatten(2, (-1, queries)).masked_fill(~mask_XQS[:, None, None], -torch.inf).flatten(2, 3)
    lse = scores.logsumexp(-1, keepdim=True)
    return (scores - lse).exp().to(value_XKSD.dtype) @ value_XKSD, lse


def _causal(size: int, device) -> torch.Tensor:
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


def _attend(module, query, key, value, attention_mask, scaling: float, shared_rows: Rows, **options: Any):
    for name in ("sliding_window", "softcap", "s_aux", "dropout"):
        if options.get(name):
            raise InputError(f"{type(module).__name__}: attention with {name} cannot share a prompt; "
                             "set model.shared_prefix to false")
    output = shared_rows.attend(module.layer_idx, query, key, value, scaling)
    return output.transpose(1, 2), None


@contextmanager
def _attention(model) -> Iterator[None]:
    """Have the model attend by `Rows.attend`; since no mask is registered for it, the library makes none."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attend)
    before = model.config._attn_implementation
    model.config._attn_implementation = NAME
    try:
        yield
    finally:
        model.config._attn_implementation = before


@torch.no_grad()
def check(model) -> None:
    """Raise InputError if this model's attention cannot be shared: its logits must equal those of a plain forward."""
    size = min(model.config.vocab_size, 64)
    ids = [(7 * i + 3) % size for i in range(24)]
    training = model.training
    model.eval()
    try:
        plain = model(input_ids=torch.tensor([ids], device=model.device)).logits[0, 16:]
        rows = Rows(Prompts(model, [ids[:16]]), [0])
        suffix = torch.tensor([ids[16:]], device=model.device)
        shared = rows.logits(suffix, torch.arange(16, 24, device=model.device)[None])[0]
    except (TypeError, AttributeError) as error:
        raise _unshareable(model, error) from error
    finally:
        model.train(training)
    tolerance = 1e-3 if plain.dtype == torch.float32 else 0.1
    if not torch.allclose(plain, shared, atol=tolerance * max(1.0, plain.abs().max().item())):
        raise _unshareable(model, f"logits differ by {(plain - shared).abs().max():.2g}")


def _unshareable(model, why: object) -> InputError:
    return InputError(f"{type(model).__name__}: its attention cannot share a prompt ({why}); "
                      "set model.shared_prefix to false")
