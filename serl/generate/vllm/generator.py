"""The interface of every sampler over vLLM engines, and their weights: taken over from the trainer and verified.

After each update `load` gives every engine the trainer's weights, and lets it prove that it has them: by the log-probs
of fixed tokens (`serl.generate.probe`) and by fingerprints of its parameters (`serl.generate.vllm.fingerprint`), which
also name the one that differs. Every answer says which weights it was sampled with; those of others are asked for
again.
"""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Hashable, Sequence
from pathlib import Path

from serl.errors import WorkFailed
from serl.generate.interface import Generation, Request
from serl.generate.probe import Probe, probe_sequences, trainer_logprobs
from serl.generate.stopping import ActionTokens, StopRule
from serl.generate.vllm.action import sampling, seed_of
from serl.generate.vllm.endpoint import Completion, Endpoint, EndpointDown
from serl.generate.vllm.fingerprint import differing
from serl.generate.vllm.loop import Loop
from serl.generate.vllm.pool import Pool
from serl.generate.vllm.server import LOG_SUFFIX
from serl.generate.vllm.weights import checkpoint_weights, write_weights
from serl.parallel import ALONE, Ranks

HEALTH_S = 2.0  # between health checks
# Asked after each update, at a temperature at which the log-probs before and after it are far apart.
ONE_TOKEN = {"temperature": 0.5, "seed": 0, "max_tokens": 1, "logprobs": 0, "top_p": 1.0, "top_k": 0,
             "ignore_eos": True, "stop_token_ids": []}


class WeightsDiffer(WorkFailed):
    """An engine does not have the trainer's weights."""


class VLLMGenerator:
    """A sampler over `endpoints`; `load` comes before the first request. `folder` is its own, for weights on their way.

    `dtype` (float32 or bfloat16) is the engines'; probe sequences are of tokens below `vocabulary`. Of several `ranks`
    with the same engines the first one starts them and gives them the weights; `load` is for all ranks to call.
    """

    stepwise = False

    def __init__(self, endpoints: Sequence[Endpoint], rule: StopRule, seed: int, max_length: int, vocabulary: int,
                 dtype: str, tolerance: float, folder: Path, ranks: Ranks = ALONE) -> None:
        self.rule, self.seed, self.max_length, self.ranks = rule, seed, max_length, ranks
        self.dtype, self.tolerance, self.folder = dtype, tolerance, folder
        self.metrics: dict[str, float] = {}  # of the last `load`
        self._sequences = probe_sequences(vocabulary, seed, min(32, max_length - 1))
        self._run = uuid.uuid4().hex[:8]  # servers may outlive a run, and serve several: versions must be its own
        self._version = ""
        self._before: list[list[float]] | None = None
        self._noise = 0.0
        self._pool, self._loop = Pool(endpoints), Loop()
        self._watch = None

    def submit(self, key: Hashable, request: Request, max_new_tokens: int, temperature: float) -> None:
        """See `serl.generate.interface.Generator`."""
        if not self._version:
            raise RuntimeError("the engines have no weights yet: call load first")
        if len(request.ids) + max_new_tokens > self.max_length:
            raise ValueError(f"{len(request.ids)} tokens and up to {max_new_tokens} more do not fit the model's length "
                             f"of {self.max_length}")
        self._loop.start(key, self._sample(request, max_new_tokens, temperature))

    def poll(self, block: bool = True) -> list[tuple[Hashable, Generation]]:
        """See `serl.generate.interface.Generator`; EnginesGone if no engine is left that answers."""
        return self._loop.collect(block)

    def cancel(self, key: Hashable) -> None:
        """See `serl.generate.interface.Generator`."""
        self._loop.cancel(key)

    def release(self, session: Hashable) -> None:
        """Nothing: a prefix cache drops what is not used by itself."""

    def load(self, model, version: int) -> None:
        """Give every engine the weights of `model`, those that were down too, and verify that it has them.

        WeightsDiffer names an engine that does not, and its first parameter that differs.
        """
        import torch

        if self._loop.pending:
            raise RuntimeError(f"{self._loop.pending} requests are pending: they would go on with other weights")
        start = time.perf_counter()
        self._version, dtype = "", getattr(torch, self.dtype)
        name = self.ranks.from_first(f"{self._run}-{version}")
        if self.ranks.leads:
            self._loop.call(self._pool.revive())
            path, prints = write_weights(self.folder, model, dtype, name)
            self._loop.call(self._pool.each(lambda endpoint: endpoint.update(str(path), name)))
        else:
            prints = {}
            for _ in checkpoint_weights(model, dtype):
                pass  # when it is a partitioned weight's turn, this rank gives its part
        difference = self._verify(model, self.ranks.from_first(prints), version)
        if not self.ranks.leads:
            self._loop.call(self._pool.revive())  # the first one's engines answer by now
        self._watch = self._watch or self._loop.background(self._pool.watch(HEALTH_S))
        self._version = name
        self.metrics = {"sync/difference": difference, "time/sync": time.perf_counter() - start,
                        "sync/engines": float(len(self._pool.alive))}

    def logprobs(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Of every token after the first of each sequence, at temperature 1, by any engine."""
        async def all_of_them() -> list[list[float]]:
            return await asyncio.gather(*(self._pool.ask(tuple(ids), lambda endpoint, ids=ids: endpoint.score(ids))
                                          for ids in sequences))
        return self._loop.call(all_of_them())

    def rest(self) -> None:
        """Until the next `load` nothing is asked: engines that can give the device's memory back."""
        self._loop.call(self._pool.each(lambda endpoint: endpoint.rest()))
        self._version = ""

    def close(self) -> None:
        """Stop the engines that were started here. The logs of servers stay if one failed: its error names them."""
        try:
            self._loop.close(self._pool.close())
        finally:
            for path in self.folder.glob("*"):
                if path.suffix != LOG_SUFFIX or not self._pool.why:
                    path.unlink()
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    async def _sample(self, request: Request, max_new_tokens: int, temperature: float) -> Generation:
        """One action, from as many answers as it takes (see `serl.generate.vllm.action`)."""
        route = tuple(request.ids[: request.shared or len(request.ids)])
        action = ActionTokens(self.rule, max_new_tokens)
        while action.stop is None:
            ids = [*request.ids, *action.ids]
            wanted = sampling(action, temperature, seed_of(self.seed, request.stream, len(action.ids)))
            answer = await self._pool.ask(route, lambda endpoint, ids=ids, wanted=wanted:
                                          self._complete(endpoint, ids, wanted))
            for token, logprob in zip(answer.ids, answer.logprobs):
                action.append(token, logprob)
        return action.generation()

    async def _complete(self, endpoint: Endpoint, ids: list[int], wanted: dict) -> Completion:
        answer = await endpoint.complete(ids, wanted)
        if set(answer.versions) != {self._version}:
            raise EndpointDown(f"samples with weights {', '.join(answer.versions) or '(unknown)'} instead of "
                               f"{self._version}: it was restarted, or belongs to another run too")
        return answer

    def _verify(self, model, mine: dict[str, list[float]], version: int) -> float:
        """Largest difference of the probe over all engines; `mine` are the weights' fingerprints. WeightsDiffer."""
        expected = trainer_logprobs(model, self._sequences)

        async def proof(endpoint: Endpoint) -> tuple[list[list[float]], dict[str, list], Completion]:
            scores = [await endpoint.score(ids) for ids in self._sequences]
            return scores, await endpoint.fingerprints(), await endpoint.complete(self._sequences[0], ONE_TOKEN)

        proofs = self.ranks.first(lambda: self._loop.call(self._pool.each(proof)))
        differences = []
        for name, (scores, prints, sample) in proofs.items():
            probe = Probe(expected, scores)
            wrong = differing(mine, prints, self.dtype)
            if wrong or probe.difference > self.tolerance or probe.stale(self._before, self._noise):
                raise WeightsDiffer(f"{name} does not have the trainer's weights of update {version}: "
                                    + _explain(probe, wrong, self.tolerance, len(mine.keys() & prints.keys())))
            ids = [[*self._sequences[0], *sample.ids]]
            if not abs(trainer_logprobs(model, ids, ONE_TOKEN["temperature"])[0][-1] - sample.logprobs[0]
                       ) <= self.tolerance:
                raise WorkFailed(f"{name} tells log-probs of another distribution than it samples from; start it with "
                                 "--logprobs-mode processed_logprobs --generation-config vllm")
            differences.append(probe.difference)
        self._before, self._noise = expected, max(self._noise, *differences)
        return max(differences)


def _explain(probe: Probe, wrong: list[str], tolerance: float, compared: int) -> str:
    first = (f"{len(wrong)} of {compared} parameters differ, the first is {wrong[0]}" if wrong else
             f"the {compared} parameters that could be compared are the same, so it computes otherwise with them: "
             "bfloat16 needs a rollout.vllm.tolerance of about 0.2")
    return f"{first}; {probe.describe()} (largest difference {probe.difference:.2g}, tolerance {tolerance:g})"
