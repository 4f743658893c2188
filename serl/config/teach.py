"""What a teacher may be trained on (`teach`), and its checks."""

from dataclasses import dataclass

from serl.config.hindsight import CLAUSES
from serl.errors import InputError

# What a teacher may be trained on: levels that show nothing of gold, and the frame alone.
TAUGHT = ("empty", "exec", "exec+verdict", "exec+sibling", CLAUSES)


@dataclass(frozen=True)
class TeachConfig:
    """A teacher that is trained on hindsight, from a run's own rollouts: `serl teach` (serl.train.teach.lessons)."""

    # The hindsight of its lessons: exec | exec+verdict | exec+sibling | exec+clauses, one or several; empty: the frame
    # alone, which makes the control that learns the same actions without hindsight.
    levels: tuple[str, ...] = ("exec+verdict",)
    empty_share: float = 0.5  # share of the solutions that are also shown behind the empty frame, to stay as they are
    imitation: float = 1.0  # weight of the lessons that have an action as target
    contrast: float = 1.0  # weight of those that tell a wrong action's tokens apart, without which no gap finds them
    held_out: float = 0.2  # share of the questions that choose the epoch to keep, and are not learned from
    epochs: float = 4.0
    lr: float = 3e-4  # peak, AdamW; warm-up, schedule, weight decay and clipping are those of sft
    questions: int = 4  # questions of an optimizer step


def check_teach(teach: TeachConfig) -> None:
    """A teacher learns from what the student may be trained on: never from gold."""
    if not teach.levels or len(set(teach.levels)) < len(teach.levels):
        raise InputError(f"config: teach.levels is {list(teach.levels)}; name each level once, at least one")
    for level in teach.levels:
        if level not in TAUGHT:
            raise InputError(f"config: teach.levels has {level!r}; a teacher learns from levels that show nothing of "
                             f"gold: {', '.join(TAUGHT)}")
    if not teach.imitation + teach.contrast > 0:
        raise InputError("config: teach.imitation and teach.contrast are both 0, which leaves nothing to learn")
    if not teach.epochs > 0:
        raise InputError(f"config: teach.epochs is {teach.epochs}; it must be above 0")
