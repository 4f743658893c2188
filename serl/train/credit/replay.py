"""Samples from the records of a run: the trajectories that training saw, token for token."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from serl.agent.dialects import Dialect, of_record
from serl.agent.trajectory import Trajectory, Turn, place_events
from serl.config import Config
from serl.errors import InputError
from serl.hindsight.credit.candidate import Piece
from serl.hindsight.diagnostics.table import values_of
from serl.io import read_jsonl
from serl.reward.panel import Reward
from serl.sql.outcome import Outcome
from serl.tracking import trajectory_file
from serl.train import checkpoint
from serl.train.records import OUTCOME_ROWS
from serl.train.samples import Sample

_FILE = re.compile(r"step_(\d{6,})\.jsonl")
# What is read of a record, and of each of its turns. Sequences have one value for each token.
_SEQUENCES = ("token_ids", "loss_mask", "action_mask", "sampler_logprobs", "student_logprobs", "teacher_logprobs",
              "weights")
_KEYS = ("step", "question_id", "sample", "gold_sql", "final_sql", "stop", "turns", "reward", "reward_terms", "correct",
         "advantage", *_SEQUENCES)
_TURN_KEYS = ("state", "action", "sql", "splice_at", "action_text", "outcome", "observation", "observation_text")


def recorded_steps(run: Path) -> list[int]:
    """Steps whose trajectories a run folder holds, in order; InputError if it holds none."""
    found = (_FILE.fullmatch(file.name) for file in (run / "trajectories").glob("step_*.jsonl"))
    steps = sorted(int(match[1]) for match in found if match)
    if not steps:
        raise InputError(f"run folder {run}: no trajectories/step_*.jsonl; give the folder that `serl train` wrote, "
                         "with train.save_trajectories on")
    return steps


def newest_weights(run: Path) -> Path:
    """The newest checkpoint of a run folder, InputError if it has none."""
    found = checkpoint.complete(run / "checkpoints")
    if not found:
        raise InputError(f"{run}: no checkpoint in it; give weights on the command line")
    return found[-1]


def check_rows(run: Path, config: Config) -> None:
    """InputError if hindsight cannot be made again, because records hold less of a result than the teacher saw."""
    if config.agent.observation_rows > OUTCOME_ROWS:
        raise InputError(f"{run}: its teacher saw {config.agent.observation_rows} rows of a result and its records "
                         f"hold {OUTCOME_ROWS}, so hindsight cannot be made again")


def read_groups(run: Path, steps: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Records of these steps, in the groups that were sampled. InputError for a step without or with broken ones."""
    known = recorded_steps(run)
    groups: dict[tuple[int, str, int], list[dict[str, Any]]] = defaultdict(list)
    seen: Counter[tuple[int, str, int]] = Counter()  # a small split may have a question twice in a step
    for step in dict.fromkeys(steps):
        if step not in known:
            raise InputError(f"run folder {run}: no trajectories of step {step}; it has {known[0]} to {known[-1]}")
        file = trajectory_file(run, step)
        for number, record in enumerate(read_jsonl(file), start=1):
            if (fault := _fault(record)) is not None:
                raise InputError(f"{file}, record {number}: {fault}; `serl train` writes complete ones, so give other "
                                 "steps or train anew")
            sample = step, record["question_id"], record["sample"]
            groups[step, record["question_id"], seen[sample]].append(record)
            seen[sample] += 1
    return list(groups.values())


def _fault(record: Any) -> str | None:
    """What makes a line no record of a trajectory."""
    if not isinstance(record, dict):
        return "not a trajectory"
    for key in _KEYS:
        if key not in record:
            return f"it has no {key}"
    for turn in record["turns"]:
        for key in _TURN_KEYS:
            if key not in turn:
                return f"a turn of it has no {key}"
    for key in _SEQUENCES:
        if len(record[key]) != len(record["token_ids"]):
            return f"{len(record['token_ids'])} tokens and {len(record[key])} {key}"
    return None


def sample_of(record: Mapping[str, Any], piece: Piece) -> Sample:
    """The sample that a record was made of, with the log-probs and weights that it keeps.

    Results hold the rows that records keep (`serl.train.records`). Raises InputError where `piece` is of another
    tokenizer than the run's.
    """
    ids, dialect = record["token_ids"], of_record(record)
    turns = [_turn(turn, ids, piece, dialect) for turn in record["turns"]]
    trajectory = Trajectory(ids, record["loss_mask"], record["action_mask"], record["sampler_logprobs"], turns,
                            record["stop"], dialect)
    if trajectory.final_sql != record["final_sql"]:
        raise InputError(f"step {record['step']}, question {record['question_id']}, sample {record['sample']}: its "
                         "tokens do not say its final_sql; give a checkpoint with the run's own tokenizer")
    reward = None if record["reward"] is None else Reward(record["reward"], record["reward_terms"], record["correct"])
    student = values_of(record["student_logprobs"])
    known = bool(torch.isfinite(student).any())
    steps = tuple(turn.get("advantage") for turn in record["turns"])  # older versions have none
    return Sample(trajectory, reward, record["advantage"], teacher=values_of(record["teacher_logprobs"]),
                  unaided=torch.full((len(ids),), float("nan")), weight=values_of(record["weights"]),
                  hindsight_mask=torch.zeros(len(ids), dtype=torch.bool), student=student if known else None,
                  hindsights=(None,) * len(turns), steps=None if None in steps else steps)


def group_of(records: Iterable[Mapping[str, Any]], piece: Piece) -> list[Sample]:
    return [sample_of(record, piece) for record in records]


def _turn(turn: Mapping[str, Any], ids: Sequence[int], piece: Piece, dialect: Dialect) -> Turn:
    action = tuple(turn["action"])
    pieces = [piece(index) for index in ids[slice(*action)]]
    parsed = dialect.parse(b"".join(pieces))
    outcome = None if turn["outcome"] is None else Outcome.from_json(turn["outcome"])
    observation = turn["observation"] and tuple(turn["observation"])
    return Turn(tuple(turn["state"]), action, turn["sql"] and tuple(turn["sql"]), turn["splice_at"], parsed,
                turn["action_text"], outcome, observation, turn["observation_text"],
                place_events(parsed, list(map(len, pieces)), action[0]), turn.get("refused", ""))
