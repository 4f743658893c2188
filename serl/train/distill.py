"""The update of the baselines that imitate the teacher instead of weighing advantages by it (Eq. 6, SDPO).

    L = (1/Z) Σ_{tokens in m} D[ π_T(· | h, c, y_<i), π_θ(· | h, y_<i) ]          D: see `serl.train.losses.imitation`

Same rollouts, teacher, hindsight and mask m as SERL's, and the same Z: loss tokens of the optimizer batch, or its
trajectories (`train.reduction`). The reward plays no part: every trajectory that could be scored is learnt from, and
λ, ε and the advantage do not matter. The teacher is asked anew for each pass over the batch. What it and the student
think of a micro-batch's tokens is kept as hidden states [N, D]; distributions exist for `CHUNK` tokens at a time, and
once more in the backward pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch.utils.checkpoint import checkpoint

from serl.config import Config
from serl.hindsight.context import Encode
from serl.hindsight.masks import scope_mask
from serl.partition import inside
from serl.train.engine import TorchEngine
from serl.train.guards import Step, unguarded
from serl.train.losses.imitation import at, imitation_loss
from serl.train.samples import Sample, teacher_branches
from serl.train.scoring import Tail, by_micro_batches, micro_batches
from serl.train.states import states
from serl.train.tail import IDLE
from serl.train.update import denominator

CHUNK = 256  # tokens: matrix products are efficient from here on


@dataclass(frozen=True)
class Pupil:
    """A sample with the teacher's inputs, each with the action that it scores, and m [T]: what is imitated."""

    sample: Sample
    views: list[tuple[tuple[int, int], Tail]]
    mask: torch.Tensor

    @property
    def tail(self) -> Tail:
        """The sampled tokens, of which those in m are asked for."""
        return replace(self.sample.tail, scored=self.mask[self.sample.first:].tolist())


def distill(engine: TorchEngine, teacher, samples: Sequence[Sample], encode: Encode, config: Config,
            apply: Step = unguarded) -> tuple[dict[str, float], list[Sample]]:
    """Apply one optimizer step; returns metrics, and the samples with both models' log-probs of the tokens in m.

    `apply` takes the step when the gradients are there. A batch without any hindsight leaves weights and optimizer as
    they are.
    """
    options, samples = config.train, list(samples)
    pupils, skipped = pupils_of(samples, encode, config)
    total = max(1.0, engine.over_ranks(denominator(samples, options.reduction)))
    places = list(pupils)
    engine.model.eval()  # as the teacher: without dropout
    engine.zero_grad()
    value = divergence = 0.0
    batches = list(micro_batches([pupil.tail for pupil in pupils.values()], options.micro_tokens,
                                 config.model.shared_prefix))
    batches += [[]] * (engine.rounds(len(batches)) - len(batches))
    for batch in batches:
        chosen = [places[i] for i in batch]
        loss, apart, scored = micro_distill(engine.model, teacher, [pupils[place] for place in chosen], config, total)
        engine.backward(loss)
        value, divergence = value + loss.item(), divergence + apart.item()
        for place, sample in zip(chosen, scored):
            samples[place] = sample
    tokens = sum(pupil.mask.sum().item() for pupil in pupils.values())
    sampled = sum(sample.trajectory.loss_tokens for sample in samples if sample.reward is not None)
    value, divergence, tokens, sampled, skipped = map(engine.over_ranks, (value, divergence, tokens, sampled, skipped))
    grad_norm = apply(engine, {"loss": value}) if engine.over_ranks(len(pupils)) else 0.0
    return {"loss": value, "grad_norm": grad_norm, "lr": engine.lr, "distill/divergence": divergence / max(1, tokens),
            "distill/coverage": tokens / max(1, sampled), "hindsight/skipped_turns": skipped}, samples


def pupils_of(samples: Sequence[Sample], encode: Encode, config: Config
              ) -> tuple[dict[int, Pupil], int]:
    """By place, the samples that have a token to imitate; and how many turns got no hindsight for want of room."""
    scored = [place for place, sample in enumerate(samples) if sample.reward is not None]
    made, tails, skipped = teacher_branches(samples, scored, encode, config)
    pupils: dict[int, Pupil] = {}
    for branch, tail in zip(made, tails):
        (start, end), sample = branch.turn.action, samples[branch.index]
        inside = scope_mask(sample.trajectory, config.hindsight.mask)
        inside[:start], inside[end:] = False, False
        if inside.any():
            known = pupils.get(branch.index) or Pupil(sample, [], torch.zeros_like(inside))
            read = list(known.sample.hindsights)
            read[branch.number] = branch.hindsight
            pupils[branch.index] = Pupil(replace(known.sample, hindsights=tuple(read)),
                                         [*known.views, ((start, end), tail)], known.mask | inside)
    return pupils, skipped


def micro_distill(student, teacher, pupils: Sequence[Pupil], config: Config, total: float
                  ) -> tuple[torch.Tensor, torch.Tensor, list[Sample]]:
    """Loss of a micro-batch with the batch's denominator, the sum of its divergences, its samples with log-probs.

    Without pupils, for a rank that has none left, it is 0, and so is its gradient.
    """
    teacher_ND = _teacher_states(teacher, pupils, config)
    tails = [pupil.tail for pupil in pupils] or [replace(IDLE, scored=[False])]
    student_ND = torch.cat(states(student, tails, config.model.shared_prefix))
    target_N = torch.tensor([pupil.sample.trajectory.token_ids[place] for pupil in pupils
                             for place in pupil.mask.nonzero().flatten().tolist()],
                            dtype=torch.long, device=student_ND.device)
    heads = [model.get_output_embeddings() for model in (student, teacher)]

    def part(student_CD: torch.Tensor, teacher_CD: torch.Tensor, target_C: torch.Tensor):
        student_CV = _logits(heads[0], student_CD, config.rollout.temperature)
        with torch.no_grad():
            teacher_CV = _logits(heads[1], teacher_CD, config.rollout.temperature)
        mask_C = torch.ones_like(target_C, dtype=torch.bool)
        loss, divergence = imitation_loss(config.train, student_CV, teacher_CV, target_C, mask_C, total)
        own = [at(logits_CV.detach(), target_C[:, None])[:, 0] for logits_CV in (student_CV, teacher_CV)]
        return loss, divergence, *own

    def imitate(student_ND: torch.Tensor) -> tuple[torch.Tensor, ...]:
        parts = [checkpoint(part, *tensors, use_reentrant=False)
                 for tensors in zip(*(tensor.split(CHUNK) for tensor in (student_ND, teacher_ND, target_N)))]
        loss, divergence, student_N, teacher_N = zip(*parts)
        return torch.stack(loss).sum(), torch.stack(divergence).sum(), torch.cat(student_N), torch.cat(teacher_N)

    work = imitate
    for head in dict.fromkeys(heads):  # within calls of both, whose weights are there then, also in the backward pass
        work = partial(inside, head, work)
    loss, divergence, student_N, teacher_N = work(student_ND)
    sizes = [int(pupil.mask.sum()) for pupil in pupils]
    scored = [_scored(pupil, *logps) for pupil, *logps in
              zip(pupils, student_N.cpu().split(sizes), teacher_N.cpu().split(sizes))]
    return loss, divergence, scored


def _teacher_states(teacher, pupils: Sequence[Pupil], config: Config) -> torch.Tensor:
    """The teacher's hidden states [N, D] of the tokens in m, in eval mode."""
    views = [replace(tail, scored=pupil.mask[slice(*span)].tolist()) for pupil in pupils for span, tail in pupil.views]
    share = config.model.shared_prefix
    found = by_micro_batches(teacher, views, config.train.micro_tokens, share,
                             lambda batch: states(teacher, batch, share))
    width = teacher.get_output_embeddings().in_features
    return torch.cat(found) if found else torch.empty(0, width, dtype=teacher.dtype, device=teacher.device)


def _logits(head: torch.nn.Linear, hidden_CD: torch.Tensor, temperature: float) -> torch.Tensor:
    logits_CV = torch.nn.functional.linear(hidden_CD, head.weight, head.bias)
    return logits_CV.to(torch.promote_types(logits_CV.dtype, torch.float32)) / temperature


def _scored(pupil: Pupil, student_M: torch.Tensor, teacher_M: torch.Tensor) -> Sample:
    sample = pupil.sample

    def spread(values_M: torch.Tensor) -> torch.Tensor:
        return torch.full((len(pupil.mask),), float("nan")).masked_scatter(pupil.mask, values_M.float())

    old = spread(student_M) if sample.student is None else sample.student
    return replace(sample, student=old, teacher=spread(teacher_M), hindsight_mask=pupil.mask)
