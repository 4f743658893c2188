"""Decoding rows that continue shared prompts and come and go: for sampling, without gradients.

A pass takes the next tokens of all rows as one sequence [1, N]: one of each row that is being decoded, and all that is
new of the rows that join (an observation, the end of a prompt). Only attention tells them apart: a row's queries attend
to their prompt's keys and to the row's own; with o and lse the outputs and log-sum-exps of the two softmaxes,

    o = o_own + σ(lse_prompt − lse_own) (o_prompt − o_own)

is the softmax over both, exactly. (For gradients: `serl.prefix_attention`.)

A session's keys and values are kept between its turns. The rows that are decoded have the first places of the memory,
so that they are views of it; a row that leaves trades places with the last of them.
"""

from collections import deque
from collections.abc import Hashable, Sequence

import numpy as np
import torch

from serl.backbone import Backbone
from serl.generate.memory import PromptMemory, RowMemory, Session
from serl.generate.parts import Decoded, Joining, Pass
from serl.generate.sampling import Sampling

# New tokens that rows may bring into one pass; a row with more joins alone.
PASS_TOKENS = 8_192


class SharedDecoder:
    """The rows that are being decoded, `active`, in the order of their places, and the sessions that are kept."""

    def __init__(self, model, rows: int) -> None:
        """At most `rows` sessions have places in memory at a time."""
        self.backbone, self.rows = Backbone(model), rows
        self.prompts, self.memory = PromptMemory(self.backbone), RowMemory()
        self.sessions: dict[Hashable, Session] = {}
        self.active: list[Sampling] = []
        self._returning: deque[Sampling] = deque()  # wait, and their sessions have places
        self._fresh: deque[Sampling] = deque()  # wait for a place
        self._joining: list[tuple[Sampling, list[int]]] = []  # the last of the active rows, with their new tokens
        self._decoded: Decoded | None = None  # None: to be made anew, since rows came or went

    def renew(self) -> None:
        """The model has other weights: prompts are encoded again. RuntimeError while sessions are kept."""
        if self.memory.seated:
            raise RuntimeError(f"the model's weights changed while {self.memory.seated} trajectories were under way; "
                               "release them before an update")
        self.prompts.forget()

    def open(self, sampling: Sampling) -> None:
        """A request was submitted. ValueError if it does not go on from what its session had."""
        ids, key = sampling.request.ids, sampling.session
        session = self.sessions.get(key)
        if session is None:
            # The last token of a request is always the row's own: its logits are what is asked for.
            session = Session(tuple(ids[: min(sampling.request.shared or len(ids), len(ids) - 1)]))
            if not session.prompt:
                raise ValueError("a request needs two tokens at least")
            self.prompts.hold(session.prompt)
            self.sessions[key] = session
        if len(ids) <= session.known or [*session.prompt, *session.own] != list(ids[: session.known]):
            raise ValueError(f"session {key}: a request of {len(ids)} tokens does not go on from the {session.known} "
                             "that were read before")
        (self._fresh if session.place is None else self._returning).append(sampling)

    def withdraw(self, sampling: Sampling) -> None:
        """Forget a request."""
        for queue in (self._returning, self._fresh):
            if sampling in queue:
                queue.remove(sampling)
        if sampling in self.active:
            self._joining = [each for each in self._joining if each[0] is not sampling]
            self.retire([sampling])

    def release(self, key: Hashable) -> None:
        """Forget a session."""
        session = self.sessions.pop(key, None)
        if session is not None:
            self.memory.leave(session)
            self.prompts.drop(session.prompt)

    def join(self) -> None:
        """Let requests that wait join the active ones, first those whose sessions have a place, while there is room."""
        tokens = 0
        while queue := self._returning or self._fresh:
            session = self.sessions[queue[0].session]
            new = list(queue[0].request.ids[session.known:])
            if tokens and tokens + len(new) > PASS_TOKENS or session.place is None and not self._has_room():
                break
            if session.place is None:
                self.memory.seat(session)
            self._joining.append((queue.popleft(), new))
            tokens += len(new)
        if not self._joining:
            return
        sessions = {sampling: self.sessions[sampling.session] for sampling, _ in self._joining}
        self.prompts.encode([session.prompt for session in sessions.values()])
        # Rows with one token go with those that are decoded; the others of a prompt stand together.
        self._joining.sort(key=lambda each: (len(each[1]) > 1, self.prompts.place[sessions[each[0]].prompt]))
        for place, (sampling, _) in enumerate(self._joining, len(self.active)):
            self.memory.swap(sessions[sampling].place, place)
        self.active += [sampling for sampling, _ in self._joining]
        self._decoded = None

    def _has_room(self) -> bool:
        """Whether there is a place for a session.

        If nothing could go on otherwise, an idle one gives its own away; what it had is read again when it comes back.
        """
        if self.memory.seated < self.rows:
            return True
        if self.active or self._joining:
            return False
        self.memory.leave(next(session for session in self.memory.at if session is not None))
        return True

    def retire(self, gone: Sequence[Sampling]) -> None:
        """These are no longer decoded; what was computed for their sessions stays."""
        gone = set(gone)
        stay = [sampling for sampling in self.active if sampling not in gone]
        places = [place for place, sampling in enumerate(self.active) if sampling not in gone]
        holes = sorted(set(range(len(stay))) - set(places))
        order = dict(zip(places, stay))
        for hole, place in zip(holes, (place for place in places if place >= len(stay))):
            self.memory.swap(hole, place)
            order[hole] = order.pop(place)
        self.active = [order[place] for place in range(len(stay))]
        self._decoded = None

    def logits(self) -> torch.Tensor:
        """Logits [B, V] of the next token of each active row."""
        joining, self._joining = self._joining, []
        sessions = [self.sessions[sampling.session] for sampling in self.active]
        new = [[sampling.ids[-1]] for sampling in self.active[: len(sessions) - len(joining)]]
        new += [tokens for _, tokens in joining]
        single = sum(len(tokens) == 1 for tokens in new)
        self._reserve(sessions, new)
        if self._decoded is None:
            self.prompts.settle()
            self.memory.settle()
        if self._decoded is None and single:
            self._decoded = Decoded(self.prompts, [session.prompt for session in sessions[:single]])
        parts: list[Decoded | Joining] = []
        if single:
            self._decoded.set_lengths([len(session.own) for session in sessions[:single]])
            parts.append(self._decoded)
        if single < len(new):
            parts.append(Joining(self.prompts, sessions[single:], new[single:], single))
            self._decoded = None  # from the next pass on, these rows are among the others
        hidden_ND = Pass(self.memory.pool, self.prompts.pool, parts, sessions, new).encode(self.backbone)
        for session, tokens in zip(sessions, new):
            session.own += tokens
        last_B = torch.from_numpy(np.cumsum([len(tokens) for tokens in new]) - 1).to(hidden_ND.device)
        return self.backbone.head(hidden_ND[last_B]).float()

    def _reserve(self, sessions: Sequence[Session], new: Sequence[Sequence[int]]) -> None:
        need = max(len(session.own) + len(tokens) for session, tokens in zip(sessions, new))
        if need > self.memory.pool.columns:  # room for what is sampled too, so that this is seldom
            need += max(sampling.limit for sampling in self.active)
        pool = self.prompts.pool
        self.memory.pool.reserve(len(self.memory.at), need, (pool.keys, pool.values))
