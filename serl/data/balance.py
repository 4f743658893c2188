"""A sample of the same size from every level of difficulty, in one pass that remembers the sample alone.

Which questions it has is a function of the questions and the seed: each level gives those with the lowest hash of seed
and question_id. The order in which they come, and the file's format, play no part, and a smaller sample is a part of a
larger one.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from serl.data.example import Example


@dataclass(frozen=True)
class Sample:
    """Which questions of a large data set are read."""

    levels: tuple[str, ...] = ()
    """Levels of difficulty, in the data's own words whatever their case; none named: all."""
    per_level: int | None = None
    """So many questions of each; None: every one."""
    seed: int = 0

    def has(self, level: str) -> bool:
        return not self.levels or level.casefold() in map(str.casefold, self.levels)


WHOLE = Sample()


def balanced(examples: Iterable[Example], sample: Sample) -> list[Example]:
    """The sample of `examples`, by position; a question_id that comes again is the same question, and left out."""
    heaps: dict[str, list[tuple[int, str, Example]]] = {}  # of each level the highest priority first, negated
    ids: set[str] = set()
    for example in examples:
        if example.question_id in ids or not sample.has(example.difficulty):
            continue
        heap = heaps.setdefault(example.difficulty.casefold(), [])
        entry = (-_priority(example.question_id, sample.seed), example.question_id, example)
        if sample.per_level is None or len(heap) < sample.per_level:
            heapq.heappush(heap, entry)
        elif entry > heap[0]:
            ids.remove(heapq.heapreplace(heap, entry)[1])
        else:
            continue
        ids.add(example.question_id)
    kept = [example for heap in heaps.values() for _, _, example in heap]
    return sorted(kept, key=lambda example: example.position)


def _priority(question_id: str, seed: int) -> int:
    digest = hashlib.blake2b(f"{seed}\0{question_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
