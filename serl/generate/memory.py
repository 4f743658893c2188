"""Where decoding keeps keys and values: prompts that rows share, and places for rows' own tokens.

Both are pools of tensors [X, K, Y, D] a layer, X places of up to Y tokens, that grow when there is need. Nothing is
copied when a row or prompt leaves: its place is given to another.
"""

from collections import Counter
from collections.abc import Sequence

import torch

from serl.backbone import Backbone
from serl.prefix_attention import bias_of
from serl.shared_prefix import Prompts

# Tokens of prompts that are encoded in one go.
PROMPT_TOKENS = 32_768


class Pool:
    """Keys and values of all layers. What was never written is 0: a masked token of weight 0 must not be NaN."""

    def __init__(self) -> None:
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

    @property
    def columns(self) -> int:
        return self.keys[0].shape[2] if self.keys else 0

    def reserve(self, places: int, columns: int, like: Sequence[Sequence[torch.Tensor]]) -> None:
        """Have room for so many places and columns; `like` are keys and values [., K, ., D] of each layer."""
        old_places, old_columns = (self.keys[0].shape[0], self.columns) if self.keys else (0, 0)
        if places <= old_places and columns <= old_columns:
            return
        places, columns = _grown(old_places, places), _grown(old_columns, columns)
        for tensors, models in zip((self.keys, self.values), like):
            for layer, model in enumerate(models):
                grown = model.new_zeros(places, model.shape[1], columns, model.shape[3])
                if layer == len(tensors):
                    tensors.append(grown)
                else:
                    grown[:old_places, :, :old_columns] = tensors[layer]
                    tensors[layer] = grown

    def move(self, moves: Sequence[tuple[int, int]], columns: int) -> None:
        """Put what is at each `source` to its `target`, all at once; the first `columns` of it."""
        if not moves:
            return
        target, source = (torch.tensor(places, device=self.keys[0].device) for places in zip(*moves))
        for tensors in (self.keys, self.values):
            for tensor in tensors:
                tensor[target, :, :columns] = tensor[source, :, :columns]


def _grown(old: int, need: int) -> int:
    """By half at least, so that what grows again and again is copied seldom."""
    return old if need <= old else max(need, old + old // 2)


class PromptMemory:
    """Keys and values of the prompts in use, each encoded once, at the place `place[prompt]` of the pool."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone, self.pool = backbone, Pool()
        self.users: Counter[tuple[int, ...]] = Counter()
        self.place: dict[tuple[int, ...], int] = {}
        self.at: list[tuple[int, ...] | None] = []  # the prompt at each place

    def hold(self, prompt: tuple[int, ...]) -> None:
        """Somebody will need it, until `drop`."""
        self.users[prompt] += 1

    def drop(self, prompt: tuple[int, ...]) -> None:
        self.users[prompt] -= 1
        if not self.users[prompt]:
            del self.users[prompt]
            if prompt in self.place:
                self.at[self.place.pop(prompt)] = None

    def forget(self) -> None:
        """What was encoded holds no longer."""
        self.place, self.at = {}, []

    def encode(self, prompts: Sequence[tuple[int, ...]]) -> None:
        """Encode those that are not there yet."""
        batch: list[tuple[int, ...]] = []
        for prompt in dict.fromkeys(prompts):
            if prompt in self.place:
                continue
            if batch and sum(map(len, batch)) + len(prompt) > PROMPT_TOKENS:
                self._encode(batch)
                batch = []
            batch.append(prompt)
        if batch:
            self._encode(batch)

    def _encode(self, batch: Sequence[tuple[int, ...]]) -> None:
        found = Prompts(self.backbone, batch)
        self.at += [None] * (len(batch) - self.at.count(None))
        free = [place for place, prompt in enumerate(self.at) if prompt is None]
        for prompt, place in zip(batch, free):
            self.at[place], self.place[prompt] = prompt, place
        self.pool.reserve(len(self.at), max(map(len, batch)),
                          [[parts[0] for parts in layers] for layers in (found.keys, found.values)])
        for number, members in enumerate(found.batches):
            places = torch.tensor([self.place[batch[member]] for member in members], device=self.backbone.device)
            for tensors, layers in ((self.pool.keys, found.keys), (self.pool.values, found.values)):
                for tensor, parts in zip(tensors, layers):
                    tensor[places, :, : parts[number].shape[2]] = parts[number]

    def settle(self) -> None:
        """Close the gaps that prompts have left, when they are a quarter of the places."""
        if len(self.place) > 0.75 * len(self.at):
            return
        kept = len(self.place)
        holes = [place for place in range(kept) if self.at[place] is None]
        moves = [(hole, place) for hole, place in zip(holes, (p for p in range(kept, len(self.at)) if self.at[p]))]
        self.pool.move(moves, self.pool.columns)
        for target, source in moves:
            self.place[self.at[source]], self.at[target] = target, self.at[source]
        del self.at[kept:]

    def bias(self, dtype: torch.dtype) -> tuple[int, torch.Tensor | None]:
        """Columns of the longest prompt, and 0 or −inf [U, 1, 1, P] where they are a prompt's own; None: all are."""
        longest = max(map(len, self.place))
        lengths = [longest if prompt is None else len(prompt) for prompt in self.at]
        if min(lengths) == longest:
            return longest, None
        mask_UP = torch.arange(longest) < torch.tensor(lengths)[:, None]
        return longest, bias_of(mask_UP.to(self.backbone.device), dtype)[:, None, None]


class Session:
    """A trajectory: its prompt, and its own tokens so far whose keys and values are kept at `place`."""

    def __init__(self, prompt: tuple[int, ...]) -> None:
        self.prompt = prompt
        self.own: list[int] = []
        self.place: int | None = None
        self.stored: int | None = None  # where its keys and values lie: `place`, once moves were carried out

    @property
    def known(self) -> int:
        """How many of a request's first ids need not be read again."""
        return len(self.prompt) + len(self.own)


class RowMemory:
    """Places of sessions. `swap` only says who is to be where; `settle` moves what has to be."""

    def __init__(self) -> None:
        self.pool = Pool()
        self.at: list[Session | None] = []

    @property
    def seated(self) -> int:
        return len(self.at) - self.at.count(None)

    def seat(self, session: Session) -> None:
        """Give a session a place, the first that is free."""
        if None not in self.at:
            self.at.append(None)
        place = self.at.index(None)
        self.at[place], session.place, session.stored = session, place, place

    def leave(self, session: Session) -> None:
        if session.place is not None:
            self.at[session.place] = None
        session.own, session.place, session.stored = [], None, None

    def swap(self, one: int, other: int) -> None:
        self.at[one], self.at[other] = self.at[other], self.at[one]
        for place in (one, other):
            if (session := self.at[place]) is not None:
                session.place = place

    def settle(self) -> None:
        """Move keys and values to where their sessions are now."""
        moved = [session for session in self.at if session is not None and session.stored != session.place]
        held = [session for session in moved if session.own]
        self.pool.move([(session.place, session.stored) for session in held],
                       max((len(session.own) for session in held), default=0))
        for session in moved:
            session.stored = session.place
