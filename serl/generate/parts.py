"""A pass of decoding, and the attention of its rows to their prompts and own tokens (see `serl.generate.decoding`).

Rows that are decoded have one query each, and there are many of them: all prompts take part in one product, padded to
one length. Rows that join have many queries: each attends to its own prompt alone.
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import torch

from serl.backbone import Backbone
from serl.generate.memory import Pool, PromptMemory, Session
from serl.prefix_attention import attend_part, bias_of
from serl.shared_prefix import encode


class Decoded:
    """Rows [0, B) with one new token each, which are the first tokens of the pass."""

    def __init__(self, prompts: PromptMemory, owner: Sequence[tuple[int, ...]]) -> None:
        device = prompts.backbone.device
        units = len(prompts.at)
        rows: list[list[int]] = [[] for _ in range(units)]
        slot = []  # which row of its prompt each is
        for row, prompt in enumerate(owner):
            own = rows[prompts.place[prompt]]
            slot.append(len(own))
            own.append(row)
        group = max(map(len, rows))
        # Slot (u, g) holds the g-th row of the u-th prompt; what is missing is filled up with a row that is dropped.
        self.slots = torch.tensor([own + [0] * (group - len(own)) for own in rows], device=device)
        self.places = torch.tensor([prompts.place[prompt] * group + g for prompt, g in zip(owner, slot)],
                                   device=device)
        self.dtype = prompts.pool.keys[0].dtype
        self.longest, self.bias_U11P = prompts.bias(self.dtype)

    def set_lengths(self, lengths: Sequence[int]) -> None:
        """How many tokens of its own each row has before the new one."""
        self.columns, self.bias_B11S = max(lengths) + 1, None
        if min(lengths) + 1 < self.columns:
            length_B = torch.tensor(lengths, device=self.slots.device)
            mask_BS = torch.arange(self.columns, device=self.slots.device) <= length_B[:, None]
            self.bias_B11S = bias_of(mask_BS, self.dtype)[:, None, None]

    def attend(self, query_NKGD: torch.Tensor, key: torch.Tensor, value: torch.Tensor, prompt_key: torch.Tensor,
               prompt_value: torch.Tensor) -> torch.Tensor:
        """Outputs [B, K, G, D]; the pools are [X, K, Y, D] each."""
        batch, (units, group) = len(self.places), self.slots.shape
        query_BKGD = query_NKGD[:batch]
        own_BKGD, own_lse = attend_part(query_BKGD, key[:batch, :, : self.columns], value[:batch, :, : self.columns],
                                        self.bias_B11S)
        folded = query_BKGD[self.slots.flatten()].unflatten(0, (units, group)).transpose(1, 2).flatten(2, 3)
        prompt, lse = (found.unflatten(2, (group, -1)).transpose(1, 2).flatten(0, 1)[self.places]
                       for found in attend_part(folded, prompt_key[:units, :, : self.longest],
                                                prompt_value[:units, :, : self.longest], self.bias_U11P))
        return merge(own_BKGD, own_lse, prompt, lse)


class Joining:
    """Rows that follow those of `Decoded` in memory, as their tokens do in the pass; rows of a prompt in a run."""

    def __init__(self, prompts: PromptMemory, sessions: Sequence[Session], new: Sequence[Sequence[int]], first: int
                 ) -> None:
        """`first` rows, and tokens, are before these."""
        device = prompts.backbone.device
        size_B = np.array([len(tokens) for tokens in new])
        length_B = np.array([len(session.own) for session in sessions])
        self.first, self.columns = first, int((length_B + size_B).max())
        offset_Q = np.arange(size_B.max())
        real_BQ = offset_Q < size_B[:, None]
        start_B1 = first + np.cumsum(size_B)[:, None] - size_B[:, None]
        # A row's padding is its first token again.
        self.index_BQ = torch.from_numpy(np.where(real_BQ, start_B1 + offset_Q, start_B1)).to(device)
        self.real_N = torch.from_numpy(np.flatnonzero(real_BQ)).to(device)
        seen_BQS = np.arange(self.columns) <= (length_B[:, None] + offset_Q)[:, :, None]
        self.bias_BQS = bias_of(torch.from_numpy(seen_BQS).to(device), prompts.pool.keys[0].dtype)
        self.spans = []  # (place of a prompt, its length, first and last + 1 of its rows)
        for prompt, rows in groupby(range(len(sessions)), lambda row: sessions[row].prompt):
            rows = list(rows)
            self.spans.append((prompts.place[prompt], len(prompt), rows[0], rows[-1] + 1))

    def attend(self, query_NKGD: torch.Tensor, key: torch.Tensor, value: torch.Tensor, prompt_key: torch.Tensor,
               prompt_value: torch.Tensor) -> torch.Tensor:
        """Outputs [N, K, G, D] of these rows' tokens; the pools are [X, K, Y, D] each."""
        batch, queries = self.index_BQ.shape
        shared, heads = query_NKGD.shape[1:3]
        query_BKMD = query_NKGD[self.index_BQ].permute(0, 2, 3, 1, 4).flatten(2, 3)  # M = G · Q
        rows = slice(self.first, self.first + batch)
        own_BKMD, own_lse = attend_part(query_BKMD, key[rows, :, : self.columns], value[rows, :, : self.columns],
                                        self.bias_BQS.repeat(1, heads, 1)[:, None])
        prompt_BKMD, prompt_lse = torch.empty_like(own_BKMD), torch.empty_like(own_lse)
        for place, length, start, stop in self.spans:
            folded = query_BKMD[start: stop].transpose(0, 1).flatten(1, 2)[None]
            found = attend_part(folded, prompt_key[place, None, :, :length], prompt_value[place, None, :, :length])
            for whole, part in zip((prompt_BKMD, prompt_lse), found):
                whole[start: stop] = part[0].unflatten(1, (stop - start, -1)).transpose(0, 1)
        merged_BKMD = merge(own_BKMD, own_lse, prompt_BKMD, prompt_lse)
        return merged_BKMD.unflatten(2, (heads, queries)).permute(0, 3, 1, 2, 4).flatten(0, 1)[self.real_N]


class Pass:
    """The next tokens `new` of the sessions at the places 0, 1, ... of the memory, as one sequence [1, N]."""

    def __init__(self, rows: Pool, prompts: Pool, parts: Sequence[Decoded | Joining], sessions: Sequence[Session],
                 new: Sequence[Sequence[int]]) -> None:
        self.rows, self.prompts, self.parts = rows, prompts, parts
        size_B = np.array([len(tokens) for tokens in new])
        offset_N = np.arange(size_B.sum()) - np.repeat(np.cumsum(size_B) - size_B, size_B)
        column_N = np.repeat([len(session.own) for session in sessions], size_B) + offset_N
        position_N = np.repeat([len(session.prompt) for session in sessions], size_B) + column_N
        ids_N = [token for tokens in new for token in tokens]
        _, shared, columns, _ = rows.keys[0].shape
        # Where each token's keys go in a pool as a list of X · K · Y vectors.
        place_NK = np.repeat(np.arange(len(new)), size_B)[:, None] * shared + np.arange(shared)
        target_M = (place_NK * columns + column_N[:, None]).ravel()
        device = rows.keys[0].device
        self.ids_1N, self.position_1N = torch.tensor(np.stack([ids_N, position_N])[:, None], device=device)
        self.target_M = torch.from_numpy(target_M).to(device)

    def encode(self, backbone: Backbone) -> torch.Tensor:
        """States [N, D] of the tokens."""
        return encode(backbone, backbone.embedding(self.ids_1N), self.position_1N, self)[0]

    def attend(self, layer: int, query_1HND: torch.Tensor, key_1KND: torch.Tensor, value_1KND: torch.Tensor,
               scaling: float) -> torch.Tensor:
        """Attention of the tokens to their prompts and rows, [1, H, N, D] (see `serl.shared_prefix.Attention`)."""
        pools = [tensors[layer] for pool in (self.rows, self.prompts) for tensors in (pool.keys, pool.values)]
        for pool, new_1KND in zip(pools, (key_1KND, value_1KND)):
            pool.view(-1, pool.shape[-1]).index_copy_(0, self.target_M, new_1KND[0].transpose(0, 1).flatten(0, 1))
        # The heads that share a key head (grouped-query attention) are folded: [N, K, G, D].
        query_NKGD = (query_1HND[0].transpose(0, 1) * scaling).unflatten(1, (key_1KND.shape[1], -1))
        out_NKGD = torch.cat([part.attend(query_NKGD, *pools) for part in self.parts])
        return out_NKGD.flatten(1, 2).transpose(0, 1)[None]


def merge(own: torch.Tensor, own_lse: torch.Tensor, prompt: torch.Tensor, prompt_lse: torch.Tensor) -> torch.Tensor:
    """The softmax over both parts, of their outputs [..., D] and log-sum-exps [..., 1]."""
    return own + torch.sigmoid(prompt_lse - own_lse).to(own.dtype) * (prompt - own)
