"""Evidence of the credit sources that need no teacher, for the samples of a step (`serl.hindsight.credit.sources`).

At λ = 0, for a trajectory with A = 0, and for a step whose refills found no signal, nothing is computed and every
weight stays 1. Parts are executed for the two sources that look at them, of failed solutions only.
"""

from collections.abc import Sequence
from dataclasses import replace

from serl.config import Config
from serl.data.example import Example
from serl.hindsight.credit import sources
from serl.hindsight.credit.candidate import Piece, candidate_of
from serl.hindsight.masks import scope_mask
from serl.sql.sandbox import Sandbox
from serl.sql.tree.schema import schema_of
from serl.train.credit.entropy import sample_entropies
from serl.train.parts import ask_parts
from serl.train.samples import Sample


def add_evidence(model, samples: Sequence[Sample], examples: Sequence[Example], lam: float, config: Config,
                 piece: Piece, sandbox: Sandbox) -> list[Sample]:
    """Samples with the mask and, if it is known before the update, the evidence of the config's source.

    `samples` are groups of equal size behind one another, one for each of `examples`; `model` is the student,
    and `sandbox` runs what is asked of a database. ValueError for a source that needs a teacher.
    """
    source = config.hindsight.source
    if lam == 0.0 or source == "none" or not samples:
        return list(samples)
    masked = [replace(sample, hindsight_mask=scope_mask(sample.trajectory, config.hindsight.mask))
              if sample.learns else sample for sample in samples]
    match source:
        case "surprisal":
            return masked  # its evidence comes with the log-probs of the update's own forward: see `weigh`
        case "entropy":
            return _with_entropy(model, masked, config)
        case "parts" | "parts_surprisal":  # the latter's other half comes with the log-probs, as that of surprisal
            return _with_parts(masked, examples, piece, sandbox)
        case "oracle_diff" | "sibling_contrast":
            size = len(samples) // len(examples)
            return [sample for place, example in enumerate(examples)
                    for sample in _with_difference(masked[place * size: (place + 1) * size], example, config, piece)]
        case other:
            raise ValueError(f"no such source without a teacher: {other!r}")


def _with_entropy(model, samples: Sequence[Sample], config: Config) -> list[Sample]:
    taught = [index for index, sample in enumerate(samples) if sample.hindsight_mask.any()]
    out = list(samples)
    for index, entropy_T in zip(taught, sample_entropies(model, [samples[index] for index in taught], config)):
        sample = samples[index]
        out[index] = replace(sample, credit=sources.entropy(entropy_T, sample.hindsight_mask, sample.correct))
    return out


def _with_parts(samples: Sequence[Sample], examples: Sequence[Example], piece: Piece, sandbox: Sandbox
                ) -> list[Sample]:
    """Samples with the evidence of the parts of failed solutions."""
    size, out, failed, actions = len(samples) // len(examples), list(samples), [], []
    for index, sample in enumerate(samples):
        if sample.correct or not sample.hindsight_mask.any():
            continue
        own, outcome = candidate_of(sample.trajectory, piece, sample.correct), sample.trajectory.turns[-1].outcome
        if own.sql is not None and outcome is not None:
            failed.append((index, own))
            actions.append((examples[index // size].db_path, own.sql, outcome.status))
    for (index, own), answer in zip(failed, ask_parts(sandbox, actions)):
        out[index] = replace(samples[index], credit=sources.parts(own, answer.findings))
    return out


def _with_difference(group: Sequence[Sample], example: Example, config: Config, piece: Piece) -> list[Sample]:
    """One question's samples with the evidence of a tree difference."""
    candidates = [candidate_of(sample.trajectory, piece, sample.correct) for sample in group]
    compared = sources.Comparer(schema_of(example.db_path))
    out = []
    for sample, own in zip(group, candidates):
        if not sample.learns:
            out.append(sample)
            continue
        if config.hindsight.source == "oracle_diff":
            credit = sources.oracle_diff(own, sources.TrainingGold(example.gold_sql), compared)
        else:
            credit = sources.sibling_contrast(own, candidates, compared)
        mask = sources.action_and_closer(sample.hindsight_mask, own)
        out.append(replace(sample, credit=credit, hindsight_mask=mask))
    return out
