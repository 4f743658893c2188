"""The teacher: weights that re-score the student's tokens, in eval mode, never trained, never the reference.

    periodic  a hard copy of the student every `sync_every` updates (the paper's)
    ema       θ_T ← d θ_T + (1 − d) θ_S after every update
    frozen    the starting policy, or a model of its own (`hindsight.teacher.path`)
    live      the student itself: no copy, one forward less to keep in memory

With adapters, what is copied, blended and saved are these: the frozen weights are the student's own.
"""

import torch

from serl.config import TeacherConfig
from serl.model import Snapshot


class Teacher:
    """`model` scores; `after_update(student, update)` follows the student; `updates_behind` is its lag.

    The lag is the age of its weights in updates; for `ema` their mean age, a ← d (a + 1), which nears d / (1 − d).
    """

    def __init__(self, student: torch.nn.Module, config: TeacherConfig, own: torch.nn.Module | None = None) -> None:
        """`own` is the model of `config.path`, which becomes the teacher: nobody else may hold it."""
        self.config = config
        self.updates_behind: float = 0
        if own is not None:
            self._copy = Snapshot.owning(own)
        else:
            self._copy = None if config.mode == "live" else Snapshot(student)
        self.model = student if self._copy is None else self._copy.model

    def after_update(self, student: torch.nn.Module, update: int) -> None:
        """Called with the number of updates done so far, after each of them."""
        mode = self.config.mode
        self.updates_behind = 0 if mode == "live" else self.updates_behind + 1
        if mode == "periodic" and update % self.config.sync_every == 0:
            self._copy.blend(student)
            self.updates_behind = 0
        elif mode == "ema":
            self._copy.blend(student, keep=self.config.decay)
            self.updates_behind *= self.config.decay

    def state_dict(self) -> dict:
        """Weights (none for `live`) and the lag, for a checkpoint."""
        weights = None if self._copy is None else self._copy.state_dict()
        return {"weights": weights, "updates_behind": self.updates_behind}

    def load_state_dict(self, state: dict) -> None:
        self.updates_behind = state["updates_behind"]
        if self._copy is not None:
            self._copy.load_state_dict(state["weights"])
