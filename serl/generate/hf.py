"""Sampling from a Hugging Face causal LM in this process.

What requests share (the prompt of a question's group) is encoded once, what a trajectory's turns have in common too,
and a sequence that ends makes room for the next: see `serl.generate.decoding`. `share=False` is the plain way.

The same seed gives the same samples whatever a batch is made of, up to rounding: sums in another order change the last
bits of log-probs, and a token whose random number falls within these of the border between two tokens.
"""

from collections.abc import Hashable

import torch

from serl.generate.decoding import SharedDecoder
from serl.generate.interface import Generation, Request
from serl.generate.plain import PlainDecoder
from serl.generate.sampling import Sampling, sample
from serl.generate.stopping import StopRule
from serl.model import eval_mode, positions


class HFGenerator:
    """Sampler over `model` (see `serl.generate.interface.Generator`); it always sees the model's current weights.

    Weights may change while no session is held and no request is under way; if they change otherwise, what is kept of
    these would be of other weights than what follows, and the next poll is a RuntimeError.
    """

    stepwise = True

    def __init__(self, model, rule: StopRule, seed: int, batch_size: int, share: bool = True) -> None:
        """`batch_size`: trajectories at a time that are sampled, or kept between turns; others wait."""
        self.model, self.rule, self.seed = model, rule, seed
        self._decoder = (SharedDecoder if share else PlainDecoder)(model, batch_size)
        self._pending: dict[Hashable, Sampling] = {}
        self._busy: set[Hashable] = set()  # sessions with a pending request
        self._limit = positions(model)
        self._weights = list(model.parameters())
        self._version: list[tuple[int, int]] = []

    def submit(self, key: Hashable, request: Request, max_new_tokens: int, temperature: float) -> None:
        longest = len(request.ids) + max_new_tokens
        if self._limit is not None and longest > self._limit:
            raise ValueError(f"a request of {len(request.ids)} tokens and {max_new_tokens} new ones does not fit the "
                             f"model's {self._limit}")
        if key in self._pending or request.session in self._busy:
            raise ValueError(f"request {key}, session {request.session}: there is one pending already")
        sampling = Sampling(key, request, self.rule, max_new_tokens, temperature, self.seed)
        self._decoder.open(sampling)
        self._pending[key] = sampling
        if request.session is not None:
            self._busy.add(request.session)

    def poll(self, block: bool = True) -> list[tuple[Hashable, Generation]]:
        if not self._pending:
            return []
        with eval_mode(self.model):
            while not (done := self._step()) and block:
                pass
        return done

    def cancel(self, key: Hashable) -> None:
        if key in self._pending:
            self._decoder.withdraw(self._pending[key])
            self._end(self._pending[key])

    def release(self, session: Hashable) -> None:
        if session in self._busy:
            raise ValueError(f"session {session} has a pending request; cancel it first")
        self._decoder.release(session)

    @torch.inference_mode()
    def _step(self) -> list[tuple[Hashable, Generation]]:
        """One more token of every request for which there is room; those that are done with it."""
        self._check_weights()
        decoder = self._decoder
        decoder.join()
        logits_BV, active = decoder.logits(), decoder.active
        uniform_B, temperature_B = torch.tensor(
            [[sampling.uniforms[len(sampling.ids)] for sampling in active],
             [sampling.temperature for sampling in active]], dtype=torch.float64, device=logits_BV.device)
        token_B, logprob_B = sample(logits_BV, uniform_B, temperature_B)
        for sampling, token, logprob in zip(active, token_B.tolist(), logprob_B.tolist()):
            sampling.append(token, logprob)
        done = [sampling for sampling in active if sampling.stop is not None]
        if done:
            decoder.retire(done)
        for sampling in done:
            self._end(sampling)
        return [(sampling.key, sampling.generation()) for sampling in done]

    def _end(self, sampling: Sampling) -> None:
        """A request is done with; one without a session leaves nothing behind."""
        del self._pending[sampling.key]
        self._busy.discard(sampling.request.session)
        if sampling.request.session is None:
            self._decoder.release(sampling.session)

    def _check_weights(self) -> None:
        """Keep nothing that other weights have made: RuntimeError if somebody relies on it."""
        # Every change in place is counted by PyTorch; weights that are exchanged lie elsewhere.
        version = [(weight._version, weight.data_ptr()) for weight in self._weights]
        if version != self._version:
            self._decoder.renew()
            self._version = version
