"""Sequences that begin alike, as one row of tokens that holds each shared beginning once.

A teacher's branches repeat the turns before theirs, its controls differ by a few tokens of hindsight, and trajectories
of a group may be the same. A row is a tree of tokens: a token attends to those on its own path only.
"""

from collections.abc import Sequence

import numpy as np


class Tree:
    """Tokens `ids` at depths `depth` (0: the first), and for each sequence its path: where its tokens are."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.depth: list[int] = []
        self.paths: list[np.ndarray] = []
        self._grown: list[tuple[np.ndarray, int, int]] = []  # (path before, [start, end) of the tokens that follow it)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def straight(self) -> bool:
        """Whether it is one plain sequence."""
        return len(self._grown) == 1

    def common(self, ids: Sequence[int]) -> np.ndarray:
        """The longest path in the tree that `ids` begins with."""
        best, own = np.empty(0, dtype=np.int64), np.asarray(ids)
        tokens = np.asarray(self.ids, dtype=np.int64)
        for path in self.paths:
            size = min(len(path), len(own))
            differ = np.flatnonzero(tokens[path[:size]] != own[:size])
            size = int(differ[0]) if len(differ) else size
            if size > len(best):
                best = path[:size]
        return best

    def add(self, ids: Sequence[int]) -> np.ndarray:
        """Add a sequence; returns its path."""
        before = self.common(ids)
        start, end = len(self.ids), len(self.ids) + len(ids) - len(before)
        if end > start:
            self.ids += ids[len(before):]
            self.depth += range(len(before), len(ids))
            self._grown.append((before, start, end))
        self.paths.append(np.concatenate([before, np.arange(start, end)]))
        return self.paths[-1]

    def mask(self) -> np.ndarray:
        """Which tokens each token attends to, [S, S]: those before it on its path, and itself."""
        seen = np.zeros((len(self), len(self)), dtype=bool)
        for before, start, end in self._grown:
            seen[start:end, before] = True
            seen[start:end, start:end] = np.tri(end - start, dtype=bool)
        return seen


def pack(sequences: Sequence[Sequence[int]], prefix: int, width: int) -> list[tuple[Tree, list[int]]]:
    """Trees that hold all sequences, with the indices of each one's sequences in the order of its paths.

    All sequences follow one prefix of `prefix` tokens. What a token costs besides its attention is worth 6 · `width`
    (of the hidden states) pairs of a query and a key: 24 · width² against 4 · width floating-point operations a layer.
    To a tree of S tokens, a sequence of l tokens of which c are there already is added if that is the cheaper way:

        c (6 width + prefix) + l²/2  ≥  (2 S + l − c)(l − c)

    on the left what the sequence as a row of its own costs more, on the right what the tree's mask [S, S] grows by.
    """
    trees: list[tuple[Tree, list[int]]] = []
    for index in sorted(range(len(sequences)), key=lambda i: tuple(sequences[i])):  # those that begin alike, in a run
        ids = sequences[index]
        if trees:
            tree, members = trees[-1]
            common = len(tree.common(ids))
            new = len(ids) - common
            if common * (6 * width + prefix) + len(ids) ** 2 / 2 >= (2 * len(tree) + new) * new:
                tree.add(ids)
                members.append(index)
                continue
        tree = Tree()
        tree.add(ids)
        trees.append((tree, [index]))
    return trees
