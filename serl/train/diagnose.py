"""Controls of the teacher's gap, on some trajectories of a step: the same tokens under other hindsight.

Run before the update, while the student still is the policy that acted. Over `hindsight.diagnose_trajectories`
trajectories it costs two passes of the student, without hindsight and with the empty frame, and one of the teacher for
the real hindsight and for each context. All are scored anew, so that they compare whatever a sample holds already.
"""

from collections.abc import Mapping, Sequence

import torch

from serl.config import Config
from serl.hindsight.context import Encode, Hindsight, teacher_input
from serl.hindsight.controls import EMPTY, controls
from serl.hindsight.diagnostics.controls import REAL, control_metrics, noise_floor
from serl.hindsight.facts import facts_of
from serl.hindsight.levels import ContextOptions
from serl.train.samples import Sample, score_samples
from serl.train.scoring import Tail, score


def choose(samples: Sequence[Sample], count: int) -> list[Sample]:
    """The first `count` of the samples that have tokens to re-weight by hindsight.

    A step's questions come in random order, and those of one question stand together and share its prompt.
    """
    read = [sample for sample in samples if any(hindsight is not None for hindsight in sample.hindsights)]
    return [sample for sample in read if sample.hindsight_mask.any()][:count]


def contexts_of(samples: Sequence[Sample], options: ContextOptions, encode: Encode, seed: int
                ) -> dict[str, list[Hindsight | None]]:
    """The controls of `serl.hindsight.controls` that these samples have, turn after turn of all samples."""
    turns = [(sample.known, turn) for sample in samples for turn in sample.trajectory.turns]
    made = controls([known.question for known, _ in turns], [facts_of(turn, known) for known, turn in turns], options,
                    encode, seed)
    return {name: texts for name, texts in made.items() if name == EMPTY or any(text is not None for text in texts)}


def diagnose(student, teacher, samples: Sequence[Sample], contexts: Mapping[str, Sequence[Hindsight | None]],
             config: Config) -> dict[str, float]:
    """The metrics `noise/` and `control/` (see `serl.hindsight.diagnostics.controls`) over the samples' tokens.

    `contexts`: by name, the hindsight of each turn of all samples, in order; None where a turn has none. `empty`, the
    frame alone, must be among them: with the student's own weights it gives the noise floor.
    """
    if not samples:
        return {}
    inside = torch.cat([sample.hindsight_mask for sample in samples])

    def tokens(rows: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat(list(rows))[inside]

    student_N = tokens(score_samples(student, samples, config))
    metrics = noise_floor(tokens(hinted_logprobs(student, samples, contexts[EMPTY], config)) - student_N)
    only = config.hindsight.gap == "hindsight_only"
    base_N = tokens(score_samples(teacher, samples, config)) if only else student_N
    real = [hindsight for sample in samples for hindsight in sample.hindsights]
    gaps = {name: tokens(hinted_logprobs(teacher, samples, hindsights, config)) - base_N
            for name, hindsights in {REAL: real, **contexts}.items()}
    positive_N = tokens([sample.advantages > 0 for sample in samples])
    return metrics | control_metrics(gaps, student_N, positive_N)


def hinted_logprobs(model, samples: Sequence[Sample], hindsights: Sequence[Hindsight | None], config: Config
                    ) -> list[torch.Tensor]:
    """Log-probs [T] of each sample's actions under `model`, every turn with its hindsight spliced in.

    `hindsights` as in `diagnose`. NaN outside of actions, and in those without hindsight or without room for it.
    """
    turns = [(index, turn) for index, sample in enumerate(samples) for turn in sample.trajectory.turns]
    branches = []
    for (index, turn), hindsight in zip(turns, hindsights, strict=True):
        if hindsight is not None and turn.action[1] + len(hindsight.ids) <= config.model.max_length:
            trajectory = samples[index].trajectory
            tail = Tail(*teacher_input(trajectory, turn, hindsight), trajectory.turns[0].splice_at)
            branches.append((index, turn.action, tail))
    scores = score(model, [tail for *_, tail in branches], config.train.micro_tokens, config.rollout.temperature,
                   config.model.shared_prefix)
    logps = [torch.full((len(sample.trajectory),), float("nan")) for sample in samples]
    for (index, (start, end), _), logp in zip(branches, scores):
        logps[index][start:end] = logp
    return logps
