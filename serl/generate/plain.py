"""Decoding by the library's own cache of whole sequences: for models whose attention cannot share a prompt.

It is the oracle of `serl.generate.decoding`. Nothing is shared or kept: every request is read whole, in batches that
others join only when all their rows are done. Rows are padded on the left, so that all write into the same column.
"""

from collections import deque
from collections.abc import Hashable, Sequence

import torch

from serl.generate.sampling import Sampling
from serl.ragged import pad


class PlainDecoder:
    """As `SharedDecoder`."""

    def __init__(self, model, rows: int) -> None:
        self.model, self.rows = model, rows
        self.active: list[Sampling] = []
        self._queue: deque[Sampling] = deque()
        self.cache = None

    def renew(self) -> None:
        if self.active:
            raise RuntimeError(f"the model's weights changed while {len(self.active)} requests were under way")

    def open(self, sampling: Sampling) -> None:
        self._queue.append(sampling)

    def withdraw(self, sampling: Sampling) -> None:
        if sampling in self._queue:
            self._queue.remove(sampling)
        if sampling in self.active:
            self.retire([sampling])

    def release(self, key: Hashable) -> None:
        """Nothing is kept of a session."""

    def join(self) -> None:
        from transformers import DynamicCache

        if self.active or not self._queue:
            return
        self.active = [self._queue.popleft() for _ in range(min(self.rows, len(self._queue)))]
        self.cache = DynamicCache(config=self.model.config)
        ids = [sampling.request.ids for sampling in self.active]
        self.ids_BT = pad(ids, 0, torch.long, self.model.device, left=True)
        self.mask_BL = pad([[1] * len(row) for row in ids], 0, torch.long, self.model.device, left=True)

    def retire(self, gone: Sequence[Sampling]) -> None:
        kept = [place for place, sampling in enumerate(self.active) if sampling not in gone]
        self.active = [self.active[place] for place in kept]
        if kept:
            index = torch.tensor(kept, device=self.mask_BL.device)
            self.mask_BL = self.mask_BL[index]
            self.cache.batch_select_indices(index)

    def logits(self) -> torch.Tensor:
        if self.cache.get_seq_length():
            self.ids_BT = torch.tensor([sampling.ids[-1:] for sampling in self.active], device=self.mask_BL.device)
            self.mask_BL = torch.cat([self.mask_BL, self.mask_BL.new_ones(len(self.mask_BL), 1)], dim=1)
        position_BT = (self.mask_BL.cumsum(1) - 1).clamp(min=0)[:, -self.ids_BT.shape[1]:]
        output = self.model(input_ids=self.ids_BT, attention_mask=self.mask_BL, position_ids=position_BT,
                            past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        return output.logits[:, -1].float()
