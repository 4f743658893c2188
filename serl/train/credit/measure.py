"""The table of `serl.hindsight.credit.mistakes` from samples and models: every credit source, gap and control.

    oracle_diff         1 by construction, where the marks come from the same difference
    sibling_contrast, surprisal, entropy        as the trainer would have them
    parts, parts_surprisal                      the same, where the samples know what their parts did
    student −logp, student entropy              the student's own numbers as they are, the controls of every gap
    teacher_gap         Δ = logp_T with hindsight − logp_S, for each teacher and hindsight
    hindsight_only      Δ = logp_T with hindsight − logp_T without
    LEVEL − empty       Δ = logp_T with hindsight − logp_T with the empty frame: what the mere frame does is gone
    LEVEL / spread      Δ of teacher_gap in deviations of the empty frame's Δ among tokens that are as uncertain
                        (`serl.hindsight.credit.spread`)

Teachers read the tokens of the final action, the only one whose wrong tokens are known.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from serl.config import Config
from serl.hindsight.context import Hindsight
from serl.hindsight.controls import EMPTY
from serl.hindsight.credit import sources
from serl.hindsight.credit.candidate import Piece, candidate_of
from serl.hindsight.credit.mistakes import Failure, Failures, Row, Table, Tokens, find_failures, joined
from serl.hindsight.credit.spread import against_spread
from serl.hindsight.gaps import teacher_student
from serl.sql.tree.schema import schema_of
from serl.train.credit.contexts import Case, Contexts
from serl.train.credit.entropy import sample_entropies
from serl.train.diagnose import hinted_logprobs
from serl.train.samples import score_samples

Values = list[torch.Tensor]  # [T] of each failure


@dataclass(frozen=True)
class Judge:
    """A teacher in the table. `gaps` are of teacher_student and hindsight_only."""

    name: str
    model: object
    gaps: tuple[str, ...]
    against_empty: bool = False  # with the rows of LEVEL − empty and LEVEL / spread


@dataclass(frozen=True)
class Batch:
    """Failures, and the case of each."""

    failures: Failures
    cases: tuple[Case, ...]


def gather(groups: Sequence[Sequence[Case]], piece: Piece, limit: int | None = None, seed: int = 0) -> Batch:
    """The failed samples of groups of cases whose wrong tokens are known; `limit` takes a seeded sample of them."""
    parts = []
    for group in groups:
        example = group[0].example
        candidates = [candidate_of(case.sample.trajectory, piece, case.sample.correct) for case in group]
        scored = [case.sample.reward is not None for case in group]
        parts.append(find_failures(example.question_id, candidates, scored, sources.TrainingGold(example.gold_sql),
                                   sources.Comparer(schema_of(example.db_path))))
    failures = joined(parts)
    cases = [group[failure.n] for group, part in zip(groups, parts) for failure in part.found]
    chosen = range(len(cases))
    if limit is not None and limit < len(cases):
        chosen = sorted(np.random.default_rng([seed, 43]).permutation(len(cases))[:limit])
    return Batch(replace(failures, found=tuple(failures.found[i] for i in chosen)), tuple(cases[i] for i in chosen))


def measure(batch: Batch, student, judges: Sequence[Judge], contexts: Contexts, config: Config,
            passed: Callable[[], object] = lambda: None) -> Table:
    """The table of a batch. `passed` is called after every pass of a model over it."""
    samples, failures = [case.sample for case in batch.cases], batch.failures
    own = score_samples(student, samples, config)
    passed()
    entropy = sample_entropies(student, samples, config)
    passed()
    tokens = Tokens(failures.found, own, config.seed)
    baselines = {"student −logp": own, "student entropy": [-each for each in entropy]}  # evidence is −blame
    rows = [tokens.row(name, values) for name, values in _sources(batch, own, entropy).items()]
    rows += [tokens.row(name, values) for name, values in baselines.items()]
    rows.append(tokens.row("teacher_gap", _recorded(batch), "as recorded", config.hindsight.level,
                           list(baselines.items())))
    for judge in judges:
        hinted = {}
        for name, hindsights in contexts.by_name.items():
            hinted[name] = _under(judge.model, batch.cases, hindsights, config)
            passed()
        for gap in judge.gaps:
            base = own if gap == "teacher_student" else score_samples(judge.model, samples, config)
            label = "teacher_gap" if gap == "teacher_student" else gap
            gaps = {name: _less(values, base) for name, values in hinted.items()}
            rows += _gap_rows(tokens, label, judge.name, gaps, contexts.controls, baselines)
        if judge.against_empty:
            gaps = {name: _less(values, hinted[EMPTY]) for name, values in hinted.items() if name != EMPTY}
            rows += _gap_rows(tokens, "teacher_gap", judge.name, *_renamed(gaps, contexts, "− empty"), baselines)
            empty = _less(hinted[EMPTY], own)
            gaps = {name: against_spread(_less(values, own), empty, own) for name, values in hinted.items()}
            rows += _gap_rows(tokens, "teacher_gap", judge.name, *_renamed(gaps, contexts, "/ spread"), baselines)
    return Table(tuple(row for row in rows if row is not None), len(failures.found), failures.unparsed,
                 failures.unexplained)


def _gap_rows(tokens: Tokens, source: str, teacher: str, gaps: Mapping[str, Values],
              controls: Mapping[str, tuple[str, ...]], baselines: Mapping[str, Values]) -> list[Row | None]:
    """Rows of one kind of gap: each level with its leads over its `controls`, then the controls."""
    rows = []
    for level, names in controls.items():
        beside = [(name, gaps[name]) for name in names] + list(baselines.items())
        rows.append(tokens.row(source, gaps[level], teacher, level, beside))
    apart = dict.fromkeys(name for names in controls.values() for name in names)
    return rows + [tokens.row(source, gaps[name], teacher, name) for name in apart]


def _renamed(gaps: Mapping[str, Values], contexts: Contexts, how: str
             ) -> tuple[dict[str, Values], dict[str, tuple[str, ...]]]:
    """Gaps that are measured in another way, and the controls of each level among them, under names that say how."""
    controls = {f"{level} {how}": tuple(f"{name} {how}" for name in names if name in gaps)
                for level, names in contexts.controls.items()}
    return {f"{name} {how}": values for name, values in gaps.items()}, controls


def _sources(batch: Batch, own: Values, entropy: Values) -> dict[str, Values]:
    """Evidence of the sources that need no teacher."""
    failures: Sequence[Failure] = batch.failures.found
    masks = [torch.tensor(case.sample.trajectory.action_mask, dtype=torch.bool) for case in batch.cases]
    answers = [case.sample.known.parts.get(each.candidate.sql) for case, each in zip(batch.cases, failures)]
    signed = [sources.parts(each.candidate, () if answer is None else answer.findings)
              for each, answer in zip(failures, answers)]
    return {
        "oracle_diff": [sources.oracle_diff(each.candidate, each.gold, each.comparer) for each in failures],
        "sibling_contrast": [sources.sibling_contrast(each.candidate, each.group, each.comparer) for each in failures],
        "surprisal": [sources.surprisal(values, mask, False) for values, mask in zip(own, masks)],
        "entropy": [sources.entropy(values, mask, False) for values, mask in zip(entropy, masks)],
        "parts": signed,
        "parts_surprisal": [sources.no_evidence(each.candidate) if answer is None else
                            sources.parts_surprisal(values, blame, mask, False)
                            for each, answer, values, blame, mask in zip(failures, answers, own, signed, masks)],
    }


def _recorded(batch: Batch) -> Values:
    """The log-ratio of the teacher and student of the time, as records keep them: NaN where there were none."""
    samples = [case.sample for case in batch.cases]
    return [torch.full_like(sample.teacher, float("nan")) if sample.student is None
            else teacher_student(sample.student, sample.teacher) for sample in samples]


def _less(first: Values, second: Values) -> Values:
    return [teacher_student(other, one) for one, other in zip(first, second)]


def _under(model, cases: Sequence[Case], hindsights: Sequence[Hindsight | None], config: Config) -> Values:
    """Log-probs [T] of the final action behind its hindsight; NaN elsewhere, and where there is none or no room."""
    by_turn = [each for case, hindsight in zip(cases, hindsights, strict=True)
               for each in (*[None] * (len(case.sample.trajectory.turns) - 1), hindsight)]
    return hinted_logprobs(model, [case.sample for case in cases], by_turn, config)
