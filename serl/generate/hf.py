"""Sampling from a Hugging Face causal LM in this process.

Requests that share their ids (the group of one question) share one prompt encoding: each distinct prompt is
encoded once and its keys and values are repeated for the group. Prompts are left-padded, so that all rows
write their next token into the same column of the cache.

Randomness is stateless: token i of a request is drawn by inverse transform from the i-th number of a
Philox stream keyed by (seed, stream). Nothing has to be saved to resume, and batching does not matter.
"""

from collections.abc import Sequence

import numpy as np
import torch

from serl.agent.grammar import is_complete
from serl.agent.token_bytes import TokenBytes
from serl.generate.interface import Generation, Request, StopReason


class HFGenerator:
    """Sampler over `model`; it always sees the model's current weights."""

    def __init__(self, model, token_bytes: TokenBytes, eos_ids: set[int], seed: int, batch_size: int) -> None:
        self.model, self.token_bytes, self.eos_ids = model, token_bytes, eos_ids
        self.seed, self.batch_size = seed, batch_size

    def generate(self, requests: Sequence[Request], max_new_tokens: int, temperature: float
                 ) -> list[Generation]:
        """See `serl.generate.interface.Generator`."""
        order = sorted(range(len(requests)), key=lambda i: (len(requests[i].ids), tuple(requests[i].ids)))
        generations: list[Generation | None] = [None] * len(requests)
        training = self.model.training
        self.model.eval()
        for start in range(0, len(order), self.batch_size):
            chunk = order[start: start + self.batch_size]
            batch = self._batch([requests[i] for i in chunk], max_new_tokens, temperature)
            for index, generation in zip(chunk, batch):
                generations[index] = generation
        self.model.train(training)
        return generations

    @torch.inference_mode()
    def _batch(self, requests: list[Request], max_new_tokens: int, temperature: float) -> list[Generation]:
        uniforms_BT = np.stack([self._uniforms(request.stream, max_new_tokens) for request in requests])
        logits_BV, cache, mask_BL = self._encode(requests)
        rows = [_Row(index) for index in range(len(requests))]
        active = list(rows)
        for step in range(max_new_tokens):
            uniform_B = torch.from_numpy(uniforms_BT[[row.index for row in active], step])
            token_B, logprob_B = sample(logits_BV, uniform_B.to(logits_BV.device), temperature)
            for row, token, logprob in zip(active, token_B.tolist(), logprob_B.tolist()):
                row.append(token, logprob, self.token_bytes.of(token), self.eos_ids)
            keep = [position for position, row in enumerate(active) if row.stop is None]
            if not keep or step == max_new_tokens - 1:
                break
            if len(keep) <= 0.75 * len(active):  # dropping rows copies the cache: worth it in batches only
                index = torch.tensor(keep, device=token_B.device)
                cache.batch_select_indices(index)
                mask_BL, token_B = mask_BL[index], token_B[index]
                active = [active[position] for position in keep]
            mask_BL = torch.cat([mask_BL, mask_BL.new_ones(len(active), 1)], dim=1)
            logits_BV = self._forward(token_B[:, None], mask_BL, cache)
        return [row.generation() for row in rows]

    def _encode(self, requests: list[Request]):
        """Encode each distinct prompt once; logits of the next token, cache and mask, a row a request."""
        distinct: dict[tuple[int, ...], int] = {}
        source = [distinct.setdefault(tuple(request.ids), len(distinct)) for request in requests]
        longest = max(map(len, distinct))
        ids_UL = torch.zeros(len(distinct), longest, dtype=torch.long)
        mask_UL = torch.zeros(len(distinct), longest, dtype=torch.long)
        for row, ids in enumerate(distinct):
            ids_UL[row, longest - len(ids):] = torch.tensor(ids)
            mask_UL[row, longest - len(ids):] = 1
        device = self.model.device
        cache = _new_cache(self.model)
        logits_UV = self._forward(ids_UL.to(device), mask_UL.to(device), cache)
        index = torch.tensor(source, device=device)
        cache.batch_select_indices(index)
        return logits_UV[index], cache, mask_UL.to(device)[index]

    def _forward(self, ids_BT: torch.Tensor, mask_BL: torch.Tensor, cache) -> torch.Tensor:
        """Logits [B, V] after the last of `ids_BT`, whose keys and values are added to the cache."""
        position_BT = (mask_BL.cumsum(1) - 1).clamp(min=0)[:, -ids_BT.shape[1]:]
        output = self.model(input_ids=ids_BT, attention_mask=mask_BL, position_ids=position_BT,
                            past_key_values=cache, use_cache=True, logits_to_keep=1)
        return output.logits[:, -1].float()

    def _uniforms(self, stream: tuple[int, ...] | None, count: int) -> np.ndarray:
        """Numbers in [0, 1), one a token; -1 asks for the most probable token."""
        if stream is None:
            return np.full(count, -1.0)
        entropy = np.random.SeedSequence([self.seed, *stream])
        return np.random.Generator(np.random.Philox(entropy)).random(count)


class _Row:
    """One request while it is being sampled."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.text = b""
        self.stop: StopReason | None = None

    def append(self, token: int, logprob: float, piece: bytes, eos_ids: set[int]) -> None:
        if self.stop is not None:  # rows that are done stay in the batch until it is shrunk
            return
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.text += piece
        if token in eos_ids:
            self.stop = StopReason.EOS
        elif piece and is_complete(self.text, len(piece)):
            self.stop = StopReason.TAG

    def generation(self) -> Generation:
        return Generation(self.ids, self.logprobs, self.stop or StopReason.LENGTH)


def sample(logits_BV: torch.Tensor, uniform_B: torch.Tensor, temperature: float
           ) -> tuple[torch.Tensor, torch.Tensor]:
    """Inverse-transform sampling; a uniform below 0 takes the most probable token.

    Returns token ids [B] and their log-probs [B] at `temperature` (at 1 for greedy rows).
    """
    greedy_B = uniform_B < 0
    scale_B = torch.where(greedy_B, 1.0, float(temperature))[:, None].to(logits_BV)
    logprob_BV = torch.log_softmax(logits_BV / scale_B, dim=-1)
    cumulative_BV = logprob_BV.double().exp().cumsum(-1)
    # Scaled by the total, so that rounding cannot leave a uniform near 1 beyond the last token.
    target_B1 = (uniform_B.clamp(min=0).double() * cumulative_BV[:, -1])[:, None]
    drawn_B = torch.searchsorted(cumulative_BV, target_B1, right=True)[:, 0].clamp(max=logits_BV.shape[-1] - 1)
    token_B = torch.where(greedy_B, logits_BV.argmax(-1), drawn_B)
    return token_B, logprob_BV.gather(-1, token_B[:, None])[:, 0]


def _new_cache(model):
    from transformers import DynamicCache

    return DynamicCache(config=model.config)
