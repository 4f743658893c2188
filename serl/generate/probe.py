"""Whether a sampler has the trainer's weights: both score the same fixed tokens, and must agree.

    d = max |log p_engine(y_i | y_<i) − log p_trainer(y_i | y_<i)|   over i ≥ 1 of a few fixed sequences y

Two correct float32 implementations differ by some 1e-6 to 1e-5 nats here, so that a tolerance of 1e-3 is a hundred
times what rounding does. It is also below what matters: a log-prob that is 1e-3 off moves a ratio by 0.1%, where ratios
are clipped at 20%. Weights of another version usually miss it by far (`Probe.describe`), but an update of a small
learning rate can move all log-probs by less. So an engine also counts as stale when it is nearer to the weights of
before than to those of now, where the two are further apart than d ever was after a good update.

In bfloat16, d is about 1e-2 to 1e-1; see `rollout.vllm.tolerance`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from serl.model import eval_mode

SEQUENCES, LENGTH = 4, 32
NOISE = 4.0  # versions must be apart by this times the largest difference that was seen after good updates


@dataclass(frozen=True)
class Probe:
    """Log-probs of the fixed sequences, [sequence][token], under the trainer's weights and from the engine."""

    trainer: list[list[float]]
    engine: list[list[float]]

    @property
    def difference(self) -> float:
        """d, in nats; inf where either has no number."""
        return largest(self.trainer, self.engine)

    def stale(self, before: list[list[float]] | None, noise: float) -> bool:
        """Whether the engine answers like the trainer's weights of `before`; `noise` is d after good updates."""
        if before is None:
            return False
        moved = largest(self.trainer, before)
        return moved > NOISE * noise and largest(self.engine, before) < self.difference

    def describe(self) -> str:
        """Where the two are furthest apart."""
        _, sequence, token = max((abs(a - b) if np.isfinite(a - b) else np.inf, i, j)
                                 for i, rows in enumerate(zip(self.trainer, self.engine))
                                 for j, (a, b) in enumerate(zip(*rows)))
        return (f"token {token + 1} of probe sequence {sequence} has log-prob {self.trainer[sequence][token]:.6f} for "
                f"the trainer and {self.engine[sequence][token]:.6f} for the engine")


def largest(first: list[list[float]], second: list[list[float]]) -> float:
    """Largest difference of two lists of log-probs; inf if it is not a number."""
    flat = np.abs(np.concatenate([np.subtract(a, b) for a, b in zip(first, second, strict=True)]))
    return float(flat.max()) if np.isfinite(flat).all() else float("inf")


def probe_sequences(vocabulary: int, seed: int, length: int = LENGTH) -> list[list[int]]:
    """Fixed random tokens below `vocabulary`: no text, so that every embedding can matter."""
    generator = np.random.default_rng([seed, 31])
    return generator.integers(0, vocabulary, size=(SEQUENCES, length)).tolist()


@torch.no_grad()
def trainer_logprobs(model, sequences: Sequence[Sequence[int]], temperature: float = 1.0) -> list[list[float]]:
    """Log-probs of every token after the first of sequences of one length; in eval mode."""
    ids_BL = torch.tensor(sequences, device=model.device)
    with eval_mode(model):
        logits_BLV = model(input_ids=ids_BL, use_cache=False).logits[:, :-1].float()
    logprob_BLV = (logits_BLV / temperature).log_softmax(-1)
    return logprob_BLV.gather(-1, ids_BL[:, 1:, None])[..., 0].tolist()
