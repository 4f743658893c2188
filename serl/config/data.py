"""Options of the data that a run trains and is evaluated on, and the rules between them."""

from dataclasses import dataclass

from serl.errors import InputError


@dataclass(frozen=True)
class DataConfig:
    """Where questions and databases come from."""

    format: str = "bird"  # bird | spider | synsql | sparc | cosql (the latter two: dialogues)
    root: str = "data/minibird"
    train_split: str = "train"
    eval_split: str = "dev"
    # The part of a fixed shuffle of the training questions that is used, so that a warm start and RL can have
    # questions of their own: a policy that has seen gold for a question has little to learn from its reward.
    train_from: float = 0.0
    train_to: float = 1.0
    # What is read of synsql's training questions: a sample, the same for every seed of a run (serl.data.balance).
    levels: tuple[str, ...] = ()  # only these levels of sql_complexity, as Complex; none named: all
    per_level: int | None = None  # so many questions of each level; null: every one
    sample_seed: int = 0
    spare: float = 0.0  # a share to read beyond per_level, which replaces questions whose gold cannot be used
    empty_gold: str = "keep"  # keep | drop: training questions whose gold returns no row
    # Questions and databases of evaluation where they are others, as BIRD's dev for training on synsql; null: as above.
    eval_format: str | None = None
    eval_root: str | None = None
    max_train: int | None = None  # use a seeded sample of this many training questions, of dialogues whole ones
    max_eval: int | None = None  # the same for evaluation


def check_data(data: DataConfig) -> None:
    """Samples of levels where there are levels, and other data for evaluation under another name."""
    if data.format != "synsql":
        for name in ("levels", "per_level", "sample_seed"):
            if getattr(data, name) != getattr(DataConfig(), name):
                raise InputError(f"config: data.{name} is of no use with data.format {data.format}, which is read "
                                 "whole; take a part of it by data.train_from, data.train_to or data.max_train")
    if data.spare and data.per_level is None:
        raise InputError(f"config: data.spare {data.spare} is a share beyond data.per_level, which is null")
    if data.spare and (data.train_from, data.train_to) != (0.0, 1.0):
        raise InputError("config: data.spare fills up data.per_level of the whole sample; leave data.train_from 0 and "
                         "data.train_to 1")
    if (data.eval_format is None) != (data.eval_root is None):
        raise InputError("config: data.eval_format and data.eval_root go together: another data set for evaluation")
    if data.eval_root is not None and data.eval_split == data.train_split:
        raise InputError(f"config: data.eval_split and data.train_split are both {data.train_split}, of two data sets; "
                         "splits are known by their names, so give one of the files another")
