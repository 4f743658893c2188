"""What every generator takes and gives: token ids in; token ids, log-probs and the stop reason out.

Requests are submitted and polled for, so that sequences of a batch may end, and others begin, at any time: nobody waits
for the longest. A request of a `session` continues what an earlier one of the same session ended with.
"""

from collections.abc import Hashable, Sequence
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
    """Sample one continuation of `ids`, the whole state so far.

    `stream` names the random stream: the same stream, turn and state give the same sample, whatever
    else is in the batch and however often a run was resumed. None samples greedily. The first `shared` ids
    are the same for other requests too: what may be encoded once for all of them (0: nothing is known to be).
    `session` is the trajectory that this continues: what was computed for its earlier turns may be kept until
    `release`. It has one request at a time, and its ids only grow. None: a request on its own.
    """

    ids: Sequence[int]
    stream: tuple[int, ...] | None
    shared: int = 0
    session: Hashable | None = None


@dataclass(frozen=True)
class Generation:
    """A sampled continuation; log-probs are of the very tokens, at the sampling temperature."""

    ids: list[int]
    logprobs: list[float]
    stop: StopReason


class Generator(Protocol):
    """A policy that can be sampled from, many requests at a time, each answered as soon as it is done.

    A stepwise one works only while it is polled: when it is asked decides what it computes together.
    """

    stepwise: bool

    def submit(self, key: Hashable, request: Request, max_new_tokens: int, temperature: float) -> None:
        """Queue a request. ValueError, with both lengths, if its longest continuation would not fit the model."""

    def poll(self, block: bool = True) -> list[tuple[Hashable, Generation]]:
        """Requests that finished since the last call; with `block`, at least one if any is pending.

        Without `block` it comes back within a moment, a decoding step or, where the engine works elsewhere, a few
        hundredths of a second of waiting for news: it may be called again and again.
        """

    def cancel(self, key: Hashable) -> None:
        """Forget a pending request, of whatever state; an unknown key is one that has finished."""

    def release(self, session: Hashable) -> None:
        """Nothing more will come of this trajectory."""


def generate(generator: Generator, requests: Sequence[Request], max_new_tokens: int, temperature: float
             ) -> list[Generation]:
    """One generation a request, in order, from a generator with nothing else to do."""
    for key, request in enumerate(requests):
        generator.submit(key, request, max_new_tokens, temperature)
    found: dict[Hashable, Generation] = {}
    while len(found) < len(requests):
        found.update(generator.poll())
    return [found[key] for key in range(len(requests))]
