"""Drawing tokens, and one request while it is drawn.

Randomness is stateless: token i of a request is drawn by inverse transform from the i-th number of a
Philox stream keyed by (seed, stream). Nothing has to be saved to resume, and batching does not matter.
"""

from collections.abc import Hashable

import numpy as np
import torch

from serl.generate.interface import Request
from serl.generate.stopping import ActionTokens, StopRule


class Sampling(ActionTokens):
    """One request while it is being sampled."""

    def __init__(self, key: Hashable, request: Request, rule: StopRule, limit: int, temperature: float, seed: int
                 ) -> None:
        super().__init__(rule, limit)
        self.key, self.request, self.temperature = key, request, temperature
        self.uniforms = uniforms(seed, request.stream, limit)

    @property
    def session(self) -> Hashable:
        """The session that it belongs to; one of its own if it has none."""
        return self if self.request.session is None else self.request.session


def uniforms(seed: int, stream: tuple[int, ...] | None, count: int) -> np.ndarray:
    """Numbers in [0, 1), one a token; -1 asks for the most probable token."""
    if stream is None:
        return np.full(count, -1.0)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *stream]))).random(count)


def sample(logits_BV: torch.Tensor, uniform_B: torch.Tensor, temperature_B: torch.Tensor | float
           ) -> tuple[torch.Tensor, torch.Tensor]:
    """Inverse-transform sampling; a uniform below 0 takes the most probable token.

    Returns token ids [B] and their log-probs [B] at `temperature` (at 1 for greedy rows).
    """
    greedy_B = uniform_B < 0
    scale_B1 = torch.where(greedy_B, 1.0, temperature_B)[:, None].to(logits_BV)
    logprob_BV = torch.log_softmax(logits_BV / scale_B1, dim=-1)
    cumulative_BV = logprob_BV.exp().cumsum(-1, dtype=torch.float64)
    # Scaled by the total, so that rounding cannot leave a uniform near 1 beyond the last token.
    target_B1 = (uniform_B.clamp(min=0).double() * cumulative_BV[:, -1])[:, None]
    drawn_B = torch.searchsorted(cumulative_BV, target_B1, right=True)[:, 0].clamp(max=logits_BV.shape[-1] - 1)
    token_B = torch.where(greedy_B, logits_BV.argmax(-1), drawn_B)
    return token_B, logprob_BV.gather(-1, token_B[:, None])[:, 0]
