"""Rows of tokens that continue shared prompts: trees of them, and branches of these.

A row attends to its prompt and to its own tokens; a branch also to the tokens of the tree that it goes on from, by the
keys and values that the tree's own pass made: they must come from the same weights, so one object makes both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from serl.prefix_attention import prefix_attention
from serl.ragged import pad
from serl.shared_prefix import Prompts, encode
from serl.token_tree import Tree


class Rows:
    """B trees of tokens that continue prompts: tree b continues prompt `owner[b]`; trees of a prompt are in a run.

    `hidden_BSD` has the states of the tokens `wanted[b]` of each tree, and anything for others. With `keep`, `branch`
    can go on from the trees' keys and values.
    """

    def __init__(self, prompts: Prompts, owner: Sequence[int], trees: Sequence[Tree], wanted: Sequence[np.ndarray],
                 keep: bool = False) -> None:
        self.prompts, self.owner, self.trees = prompts, owner, trees
        mask_BSS = None if all(tree.straight for tree in trees) else _mask(
            [(0, np.empty(0, dtype=np.int64), tree.mask()) for tree in trees])
        view = View.of(max(map(len, trees)), wanted, mask_BSS)
        self.attention = _Continuing(prompts, owner, view, keep)
        self.hidden_BSD = self._encode([(number, tree.ids, tree.depth) for number, tree in zip(owner, trees)],
                                       self.attention)

    def places(self, row: int, path: np.ndarray) -> np.ndarray:
        """Where in the flat [B · S] states those of a tree's tokens are."""
        return row * self.hidden_BSD.shape[1] + path

    @torch.no_grad()
    def branch(self, branches: Sequence[tuple[int, Sequence[int], np.ndarray]]
               ) -> tuple[torch.Tensor, list[np.ndarray]]:
        """Encode sequences that begin like a path of a tree: (row of the tree, tokens, which it wants), rows in order.

        Returns states of all tokens [N, D], those of the trees too, and where in them each sequence's are. Of what a
        sequence shares with its tree, states that the tree was not asked for are not there.
        """
        paths = [self.trees[row].common(ids) for row, ids, _ in branches]
        places = [self.places(row, path) for (row, *_), path in zip(branches, paths)]
        states = self.hidden_BSD.detach().flatten(0, 1)
        new = [i for i, ((_, ids, _), path) in enumerate(zip(branches, paths)) if len(ids) > len(path)]
        if not new:
            return states, places
        rows, sequences, wanted, before = zip(*((*branches[i], paths[i]) for i in new))
        columns = 1 + max(int(path.max(initial=-1)) for path in before)
        mask_BQS = _mask([(columns, path, np.tri(len(ids) - len(path), dtype=bool))
                          for ids, path in zip(sequences, before)])
        view = View.of(mask_BQS.shape[1], [own[own >= len(path)] - len(path) for own, path in zip(wanted, before)],
                       mask_BQS)
        owner = [self.owner[row] for row in rows]
        hidden_BQD = self._encode([(number, ids[len(path):], range(len(path), len(ids)))
                                   for number, ids, path in zip(owner, sequences, before)],
                                  self.attention.after(rows, columns, owner, view))
        for number, (i, ids, path) in enumerate(zip(new, sequences, before)):
            start = len(states) + number * hidden_BQD.shape[1]
            places[i] = np.concatenate([places[i], np.arange(start, start + len(ids) - len(path))])
        return torch.cat([states, hidden_BQD.flatten(0, 1)]), places

    def _encode(self, rows: Sequence[tuple[int, Sequence[int], Sequence[int]]], attention: "_Continuing"
                ) -> torch.Tensor:
        """Hidden states [B, S, D] of rows of (prompt's number, tokens, their depths behind the prompt)."""
        device, lengths = self.prompts.backbone.device, self.prompts.lengths
        ids_BS = pad([ids for _, ids, _ in rows], 0, torch.long, device)
        position_BS = pad([[lengths[owner] + depth for depth in depths] for owner, _, depths in rows], 0, torch.long,
                          device)
        return encode(self.prompts.backbone, self.prompts.embed(ids_BS), position_BS, attention)


@dataclass(frozen=True)
class View:
    """What tokens see of their row, [B, Q, S] (None: what is before them); in the last layer, for some of them only.

    What follows from the last layer's other outputs, nobody reads. `last_BW` are the tokens that are wanted, padded
    with others of the row; None: all.
    """

    tokens: int
    mask_BQS: np.ndarray | None
    last_BW: np.ndarray | None

    WORTHWHILE = 0.75  # of the tokens: where more are wanted, the last layer is as the others

    @classmethod
    def of(cls, tokens: int, wanted: Sequence[np.ndarray], mask_BQS: np.ndarray | None) -> "View":
        is_wanted = np.zeros((len(wanted), tokens), dtype=bool)
        for row, places in zip(is_wanted, wanted):
            row[places] = True
        most = max(1, is_wanted.sum(1).max())
        if most > cls.WORTHWHILE * tokens:
            return cls(tokens, mask_BQS, None)
        return cls(tokens, mask_BQS, np.sort(np.argsort(~is_wanted, axis=1, kind="stable")[:, :most], axis=1))

    def last_mask(self) -> np.ndarray:
        """What the wanted tokens see, [B, W, S]."""
        if self.mask_BQS is None:
            return self.last_BW[:, :, None] >= np.arange(self.tokens)
        return np.take_along_axis(self.mask_BQS, self.last_BW[:, :, None], axis=1)


class _Continuing:
    """Attention to a prompt and to a row's own tokens, of this pass and of one before it."""

    def __init__(self, prompts: Prompts, owner: Sequence[int], view: View, keep: bool = False,
                 before: Callable[[int], tuple[torch.Tensor, torch.Tensor]] | None = None) -> None:
        self.prompts, self.spans, self.keep, self.before = prompts, prompts.spans(owner), keep, before
        self.kept: list[tuple[torch.Tensor, torch.Tensor]] = []
        device = prompts.backbone.device
        self.sight = (None, None) if view.mask_BQS is None else _sight(view.mask_BQS, device)
        self.last_layer = None if view.last_BW is None else prompts.backbone.layers - 1
        if view.last_BW is not None:
            self.last_sight = _sight(view.last_mask(), device)
            self.last_B1W1 = torch.from_numpy(view.last_BW).to(device)[:, None, :, None]

    def after(self, rows: Sequence[int], columns: int, owner: Sequence[int], view: View) -> "_Continuing":
        """Attention of new rows, each to the first `columns` tokens of one of the rows here too."""
        index = torch.tensor(rows, device=self.prompts.backbone.device)

        def before(layer: int) -> tuple[torch.Tensor, torch.Tensor]:
            keys, values = (tensor[:, :, :columns].index_select(0, index) for tensor in self.kept[layer])
            return keys, values

        return _Continuing(self.prompts, owner, view, before=before)

    def attend(self, layer: int, query_BHQD: torch.Tensor, key_BKQD: torch.Tensor, value_BKQD: torch.Tensor,
               scaling: float) -> torch.Tensor:
        if self.keep and layer == len(self.kept):  # not those of layers that are computed again
            self.kept.append((key_BKQD.detach(), value_BKQD.detach()))
        if self.before is not None:
            key_BKQD, value_BKQD = (torch.cat([old, new], dim=2)
                                    for old, new in zip(self.before(layer), (key_BKQD, value_BKQD)))
        prefix = (self.prompts.keys[layer], self.prompts.values[layer], self.spans)
        if layer != self.last_layer:
            return prefix_attention(query_BHQD, key_BKQD, value_BKQD, scaling, *prefix, *self.sight)
        index_BHWD = self.last_B1W1.expand(-1, query_BHQD.shape[1], -1, query_BHQD.shape[3])
        out_BHWD = prefix_attention(query_BHQD.gather(2, index_BHWD), key_BKQD, value_BKQD, scaling, *prefix,
                                    *self.last_sight)
        return torch.zeros_like(query_BHQD).scatter(2, index_BHWD, out_BHWD)


def _sight(mask_BQS: np.ndarray, device) -> tuple[torch.Tensor, list[int]]:
    """The last arguments of `prefix_attention`."""
    seen_QS = mask_BQS.any(0)
    ends_Q = seen_QS.shape[1] - seen_QS[:, ::-1].argmax(1)
    return torch.from_numpy(mask_BQS).to(device), ends_Q.tolist()


def _mask(rows: Sequence[tuple[int, np.ndarray, np.ndarray]]) -> np.ndarray:
    """Which of its row's tokens each token sees, [B, Q, columns + Q], columns of tokens before these being first.

    Rows are (columns, those that all tokens of the row see, mask [q, q] among the tokens). Padding sees itself, so that
    its softmax is defined.
    """
    width = max(len(own) for *_, own in rows)
    out = np.zeros((len(rows), width, rows[0][0] + width), dtype=bool)
    out[:, np.arange(width), rows[0][0] + np.arange(width)] = True
    for place, (columns, before, own) in zip(out, rows):
        size = len(own)
        place[:size, before] = True
        place[:size, columns: columns + size] = own
    return out
