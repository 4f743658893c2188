"""One step off: while batch k is learned from, batch k + 1 is sampled, by the weights of before that update.

    step k:  wait for rollout k ─ copy θ_k ─ start rollout k + 1 by the copy ─ score, update θ_k to θ_{k+1}

Every batch but the first is then sampled by weights that are one step behind, which `train.tis` corrects for: the ratio
of the trainer's to the sampler's probability is now that of two policies. It costs a copy of the weights that are
trained, and gains what sampling and updating leave idle of each other's devices: nothing on cores that both want.

A checkpoint holds the copy. A resumed run samples the batch that was in flight again, from its seed and by these
weights, as an uninterrupted one would have. When a run fails, its sandbox is closed, and the rollout that is under way
ends at its next query.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from serl.agent.rollout import RolloutResult
from serl.model import Snapshot


class Ahead:
    """The copy that samples, which has seen `updates` updates, and the rollout that is under way in another thread."""

    def __init__(self, policy) -> None:
        self._copy, self.updates = Snapshot(policy), 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="serl-rollout")
        self._rollout: Future[RolloutResult] | None = None

    @property
    def under_way(self) -> bool:
        return self._rollout is not None

    def follow(self, policy, updates: int) -> None:
        """Sample by the policy's present weights from now on."""
        if self.under_way:
            raise RuntimeError("the weights of a rollout that is under way must stay")
        self._copy.blend(policy)
        self.updates = updates

    def start(self, work: Callable[[object], RolloutResult]) -> None:
        """Begin a rollout; `work` does it with the model that it is given."""
        self._rollout = self._thread.submit(work, self._copy.model)

    def result(self, work: Callable[[object], RolloutResult]) -> RolloutResult:
        """Wait for the rollout; what it raised is raised here. `work`: the same, if none is under way.

        Such is the first step, and the first one after a resume.
        """
        if not self.under_way:
            self.start(work)
        rollout, self._rollout = self._rollout, None
        return rollout.result()

    def state_dict(self) -> dict:
        return {"weights": self._copy.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict | None, updates: int) -> None:
        """Go on from a checkpoint; None: of a run without an overlap, whose weights the copy has by now."""
        self.updates = updates if state is None else state["updates"]
        if state is not None:
            self._copy.load_state_dict(state["weights"])
