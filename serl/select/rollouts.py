"""The training rollouts of a run folder as candidates with labels: what the reward selector learns from.

Records keep a few rows of a result, so each final SQL is run again. S' and the value index are the run's own, by its
config. Gold is in the label alone: whether the trajectory was rewarded as correct.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from serl import data
from serl.config import Config
from serl.data.example import Example
from serl.errors import InputError
from serl.select.candidate import Candidate
from serl.select.learn import Rollouts
from serl.select.sampled import make
from serl.select.uses import uses
from serl.sql.outcome import Outcome
from serl.task import make_grounder, make_sandbox, requests_of
from serl.train.credit.replay import read_groups


def read_rollouts(run: Path, config: Config, steps: Sequence[int]) -> list[Rollouts]:
    """The groups of these steps without the candidates that a failure of ours met; InputError where data differ."""
    if config.grounding.mode == "oracle":
        raise InputError(f"{run}: grounding.mode oracle shows what gold SQL uses, so that a selector would see gold")
    records = read_groups(run, steps)
    examples = _examples(run, config, records)
    sqls = {(group[0]["question_id"], record["final_sql"]): examples[group[0]["question_id"]].db_path
            for group in records for record in group if record["final_sql"] is not None}
    with make_sandbox(config) as sandbox:
        results = sandbox.iter_many([(path, sql) for (_, sql), path in sqls.items()])
        outcomes = dict(zip(sqls, tqdm(results, "final SQL", len(sqls), unit="query")))
    groups = [_group(group, outcomes) for group in records]
    used = _uses(config, groups, examples)
    groups = [replace(group, candidates=tuple(replace(each, use=used[group.question_id].get(each.sql))
                                              for each in group.candidates)) for group in groups]
    return [group for group in groups if group.candidates]


def _examples(run: Path, config: Config, groups: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Example]:
    """The questions of these records, from the run's data."""
    split = config.data.train_split
    known = {each.question_id: each for each in data.load(config.data.format, Path(config.data.root), split)}
    found = {}
    for record in (group[0] for group in groups):
        example = known.get(record["question_id"])
        if example is None or example.question != record["question"]:
            raise InputError(f"{config.data.root}: question {record['question_id']} of {run}'s trajectories is not in "
                             f"split {split}; give the run's data with --data.root")
        found[record["question_id"]] = example
    return found


def _group(records: Sequence[Mapping[str, Any]], outcomes: Mapping[tuple[str, str], Outcome]) -> Rollouts:
    question_id = records[0]["question_id"]
    made = [_candidate(record, outcomes.get((question_id, record["final_sql"]))) for record in records]
    kept = [(candidate, bool(record["correct"])) for candidate, record in zip(made, records) if not candidate.lost]
    return Rollouts(question_id, tuple(candidate for candidate, _ in kept), tuple(correct for _, correct in kept))


def _candidate(record: Mapping[str, Any], outcome: Outcome | None) -> Candidate:
    turns = record["turns"]
    actions = [(turn["sql_text"], turn["outcome"] and turn["outcome"]["status"]) for turn in turns]
    span = turns[-1]["sql"] if record["final_sql"] is not None else None
    lost = record["reward"] is None  # as training had it: a failure of ours, of which nothing is to be learnt
    return make(actions, record["final_sql"], outcome, record["sampler_logprobs"], span, lost)


def _uses(config: Config, groups: Sequence[Rollouts], examples: Mapping[str, Example]) -> dict[str, dict[str, Any]]:
    """By question and SQL, of those candidates that have a result: others are not learnt from."""
    texts: dict[str, list[str]] = {group.question_id: [] for group in groups}
    for group in groups:
        texts[group.question_id] += [each.sql for each in group.candidates if each.answered]
    print(f"grounding {len(texts)} questions", file=sys.stderr)
    requests = requests_of([examples[question_id] for question_id in texts], config)
    return dict(zip(texts, uses(make_grounder(config), requests, list(texts.values()))))
