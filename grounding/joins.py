"""Join paths: which further tables are needed to join those that a question speaks of."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from grounding.schema import ForeignKey


def close_over_joins(seeds: Sequence[str], foreign_keys: Iterable[ForeignKey]) -> set[str]:
    """The seeds and the tables on a shortest join path that connects each of them to those before it.

    >>> keys = [ForeignKey("sang", "singer", "singer", "id"), ForeignKey("sang", "concert", "concert", "id")]
    >>> sorted(close_over_joins(["singer", "concert"], keys))
    ['concert', 'sang', 'singer']
    """
    neighbours: dict[str, list[str]] = defaultdict(list)
    for key in foreign_keys:
        neighbours[key.table].append(key.ref_table)
        neighbours[key.ref_table].append(key.table)
    connected: set[str] = set()
    for seed in seeds:
        if seed not in connected:
            connected |= _path_to(seed, connected, neighbours)
    return connected


def _path_to(start: str, goals: set[str], neighbours: dict[str, list[str]]) -> set[str]:
    """Tables on a shortest path from `start` to any goal, both ends included; `start` alone if there is none."""
    came_from: dict[str, str | None] = {start: None}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        if here in goals:
            path = set()
            while here is not None:
                path.add(here)
                here = came_from[here]
            return path
        for there in neighbours[here]:
            if there not in came_from:
                came_from[there] = here
                queue.append(there)
    return {start}
