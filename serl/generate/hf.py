"""Sampling from a Hugging Face causal LM in this process.

What requests share (the prompt of a question's group) is encoded once, and never copied per row: see
`serl.generate.decoding`. `share=False` is the plain way, the library's own cache of whole sequences. Rows are padded
on the left, so that all of them write their next token into the same column.

Randomness is stateless: token i of a request is drawn by inverse transform from the i-th number of a
Philox stream keyed by (seed, stream). Nothing has to be saved to resume, and batching does not matter.
"""

from collections.abc import Sequence

import numpy as np
import torch

from serl.agent.dialects import DIALECTS
from serl.agent.token_bytes import TokenBytes
from serl.generate.decoding import DecodingRows, Memory
from serl.generate.interface import Generation, Request, StopReason
from serl.ragged import pad


class HFGenerator:
    """Sampler over `model`; it always sees the model's current weights."""

    def __init__(self, model, token_bytes: TokenBytes, eos_ids: set[int], seed: int, batch_size: int,
                 share: bool = True) -> None:
        self.model, self.token_bytes, self.eos_ids = model, token_bytes, eos_ids
        self.seed, self.batch_size, self.share = seed, batch_size, share

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
        rows = [_Row(index) for index in range(len(requests))]
        active = list(rows)
        decoder = (_SharedDecoder if self.share else _PlainDecoder)(self.model, requests, max_new_tokens)
        logits_BV = decoder.first_logits()
        for step in range(max_new_tokens):
            uniform_B = torch.from_numpy(uniforms_BT[[row.index for row in active], step])
            token_B, logprob_B = sample(logits_BV, uniform_B.to(logits_BV.device), temperature)
            for row, token, logprob in zip(active, token_B.tolist(), logprob_B.tolist()):
                row.append(token, logprob, self.token_bytes.of(token), self.eos_ids)
            keep = [position for position, row in enumerate(active) if row.stop is None]
            if not keep or step == max_new_tokens - 1:
                break
            if len(keep) <= 0.75 * len(active):  # dropping rows copies their memory: worth it in batches only
                decoder.keep(keep)
                token_B = token_B[torch.tensor(keep, device=token_B.device)]
                active = [active[position] for position in keep]
            logits_BV = decoder.next_logits(token_B)
        return [row.generation() for row in rows]

    def _uniforms(self, stream: tuple[int, ...] | None, count: int) -> np.ndarray:
        """Numbers in [0, 1), one a token; -1 asks for the most probable token."""
        if stream is None:
            return np.full(count, -1.0)
        entropy = np.random.SeedSequence([self.seed, *stream])
        return np.random.Generator(np.random.Philox(entropy)).random(count)


class _SharedDecoder:
    """The model's state for a batch of requests: shared prompts, each row's own tokens, the next position."""

    def __init__(self, model, requests: Sequence[Request], max_new_tokens: int) -> None:
        # The last token of a request is always the row's own: its logits are what is asked for.
        heads = [tuple(request.ids[: min(request.shared or len(request.ids), len(request.ids) - 1)])
                 for request in requests]
        tails = [request.ids[len(head):] for request, head in zip(requests, heads)]
        if not all(heads):
            raise ValueError("a request needs two tokens at least")
        distinct = {head: number for number, head in enumerate(dict.fromkeys(heads))}
        self.ids_BS = pad(tails, 0, torch.long, model.device, left=True)
        mask_BS = pad([[True] * len(tail) for tail in tails], False, torch.bool, model.device, left=True)
        start_B1 = torch.tensor([[len(head)] for head in heads], device=model.device)
        self.position_BS = start_B1 + (mask_BS.cumsum(1) - 1).clamp(min=0)
        self.next_B1 = self.position_BS[:, -1:] + 1
        memory = Memory(mask_BS, self.ids_BS.shape[1] + max_new_tokens)
        self.rows = DecodingRows(model, list(distinct), [distinct[head] for head in heads], memory)

    def first_logits(self) -> torch.Tensor:
        """Logits [B, V] of the first new token."""
        return self.rows.logits(self.ids_BS, self.position_BS, keep=1)[:, -1].float()

    def next_logits(self, token_B: torch.Tensor) -> torch.Tensor:
        """Logits [B, V] after one more token a row."""
        logits_BV = self.rows.logits(token_B[:, None], self.next_B1, keep=1)[:, -1].float()
        self.next_B1 = self.next_B1 + 1
        return logits_BV

    def keep(self, positions: Sequence[int]) -> None:
        """Drop all other rows."""
        index = torch.tensor(positions, device=self.next_B1.device)
        self.rows.memory.select(index)
        self.rows.assign([self.rows.owner[position] for position in positions])
        self.next_B1 = self.next_B1[index]


class _PlainDecoder:
    """The same with the library's cache, for models whose attention cannot share a prompt, and as an oracle."""

    def __init__(self, model, requests: Sequence[Request], max_new_tokens: int) -> None:
        from transformers import DynamicCache

        self.model, self.cache = model, DynamicCache(config=model.config)
        self.ids_BL = pad([request.ids for request in requests], 0, torch.long, model.device, left=True)
        self.mask_BL = pad([[1] * len(request.ids) for request in requests], 0, torch.long, model.device, left=True)

    def first_logits(self) -> torch.Tensor:
        return self._forward(self.ids_BL)

    def next_logits(self, token_B: torch.Tensor) -> torch.Tensor:
        self.mask_BL = torch.cat([self.mask_BL, self.mask_BL.new_ones(len(self.mask_BL), 1)], dim=1)
        return self._forward(token_B[:, None])

    def keep(self, positions: Sequence[int]) -> None:
        index = torch.tensor(positions, device=self.mask_BL.device)
        self.cache.batch_select_indices(index)
        self.mask_BL = self.mask_BL[index]

    def _forward(self, ids_BT: torch.Tensor) -> torch.Tensor:
        position_BT = (self.mask_BL.cumsum(1) - 1).clamp(min=0)[:, -ids_BT.shape[1]:]
        output = self.model(input_ids=ids_BT, attention_mask=self.mask_BL, position_ids=position_BT,
                            past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        return output.logits[:, -1].float()


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
        elif piece and DIALECTS["xml"].is_complete(self.text, len(piece)):
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
    cumulative_BV = logprob_BV.exp().cumsum(-1, dtype=torch.float64)
    # Scaled by the total, so that rounding cannot leave a uniform near 1 beyond the last token.
    target_B1 = (uniform_B.clamp(min=0).double() * cumulative_BV[:, -1])[:, None]
    drawn_B = torch.searchsorted(cumulative_BV, target_B1, right=True)[:, 0].clamp(max=logits_BV.shape[-1] - 1)
    token_B = torch.where(greedy_B, logits_BV.argmax(-1), drawn_B)
    return token_B, logprob_BV.gather(-1, token_B[:, None])[:, 0]
