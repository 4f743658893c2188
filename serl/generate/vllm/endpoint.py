"""One engine that can be asked, wherever it runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from serl.errors import WorkFailed


class EndpointDown(Exception):
    """This engine does not answer, or not with what was asked for; another one may."""


class EnginesGone(WorkFailed):
    """No engine is left that answers."""


@dataclass(frozen=True)
class Completion:
    """Sampled tokens, their log-probs at the sampling temperature, and the versions of the weights that made them."""

    ids: list[int]
    logprobs: list[float]
    versions: tuple[str, ...]


class Endpoint(Protocol):
    """An engine. Every method raises EndpointDown where the engine itself is the trouble."""

    name: str

    async def start(self) -> None:
        """Be ready to be asked: start the engine, or find that it runs. Again after it was down."""

    async def complete(self, ids: Sequence[int], sampling: dict[str, Any]) -> Completion:
        """Sample on from `ids`."""

    async def score(self, ids: Sequence[int]) -> list[float]:
        """Log-probs, at temperature 1, of every token of `ids` after the first."""

    async def update(self, path: str, version: str) -> None:
        """Take the weights in a safetensors file, under that version, and forget all that was computed before."""

    async def fingerprints(self) -> dict[str, list[float]]:
        """Of the engine's weights, by the trainer's names (`serl.generate.vllm.fingerprint`)."""

    async def healthy(self) -> bool:
        """Whether the engine answers at all, in seconds."""

    async def rest(self) -> None:
        """Give the device's memory back until the next `update`, where the device can."""

    async def close(self) -> None:
        """Stop what `start` started."""
