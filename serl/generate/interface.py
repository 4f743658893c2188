"""What every generator takes and gives: token ids in; token ids, log-probs and the stop reason out."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class StopReason(StrEnum):
    """Why sampling of one action ended."""

    EOS = "eos"  # an end token was sampled; it is the last of the ids
    TAG = "tag"  # a closing tag was completed by the last of the ids
    LENGTH = "length"  # the token cap was reached


@dataclass(frozen=True)
class Request:
    """Sample one continuation of `ids`.

    `stream` names the random stream: the same stream, turn and state give the same sample, whatever
    else is in the batch and however often a run was resumed. None samples greedily. The first `shared` ids
    are the same for other requests too: what may be encoded once for all of them (0: nothing is known to be).
    """

    ids: Sequence[int]
    stream: tuple[int, ...] | None
    shared: int = 0


@dataclass(frozen=True)
class Generation:
    """A sampled continuation; log-probs are of the very tokens, at the sampling temperature."""

    ids: list[int]
    logprobs: list[float]
    stop: StopReason


class Generator(Protocol):
    """A policy that can be sampled from."""

    def generate(self, requests: Sequence[Request], max_new_tokens: int, temperature: float
                 ) -> list[Generation]:
        """One generation a request, in order."""
