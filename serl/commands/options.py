"""What the commands share: `--config FILE --section.key value` and JSON output."""

import argparse
import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from serl.config import Config, load_config
from serl.config.rules import OF_STARTED
from serl.errors import InputError
from serl.parallel import ranks_of

# Options that a resumed run may change: they decide neither what is sampled nor how it is learned from.
MAY_CHANGE = ("train.steps", "train.save_every", "train.keep", "train.guards.", "eval.", "tracking.", "sql.workers",
              "hindsight.dump", "engine.timeout_s",
              # Where engines are and how they start: those of a run that goes on may be others.
              *(f"rollout.vllm.{name}" for name in ("urls", "folder", *OF_STARTED, "request_timeout_s")))


def add_config(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """`--config FILE`; dotted overrides may follow anywhere."""
    parser.add_argument("--config", type=Path, required=required, metavar="FILE",
                        help="YAML recipe; any key can be overridden as --section.key VALUE")
    parser.set_defaults(takes_overrides=True)


def parse_overrides(rest: Sequence[str]) -> list[tuple[str, str]]:
    """`--a.b 1 --c=2` as [("a.b", "1"), ("c", "2")]; InputError for anything else.

    >>> parse_overrides(["--train.lr", "1e-5", "--seed=3"])
    [('train.lr', '1e-5'), ('seed', '3')]
    """
    overrides, items = [], list(rest)
    while items:
        item = items.pop(0)
        if not item.startswith("--") or item == "--":
            raise InputError(f"unexpected argument {item!r}; overrides are written --section.key VALUE")
        key, equals, value = item[2:].partition("=")
        if not equals:
            if not items or items[0].startswith("--"):
                raise InputError(f"--{key}: a value is missing")
            value = items.pop(0)
        overrides.append((key, value))
    return overrides


def written_overrides(rest: Sequence[str]) -> list[tuple[str, str]]:
    """The same for commands with an optional argument, which would take VALUE for it: only as --section.key=VALUE."""
    for item in rest:
        if not item.startswith("--") or "=" not in item:
            raise InputError(f"unexpected argument {item!r}; overrides are written --section.key=VALUE here")
    return parse_overrides(rest)


def config_of(args: argparse.Namespace) -> Config:
    """The resolved config of a command line."""
    return load_config(args.config, parse_overrides(args.overrides))


def add_run(parser: argparse.ArgumentParser) -> None:
    """`--config FILE` for a new run, or `--resume RUN` for one that was stopped."""
    add_config(parser, required=False)
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with this run folder and its config")
    parser.add_argument("--auto-resume", action="store_true",
                        help="go on with the run of --config if it exists already with the same settings")


def run_of(args: argparse.Namespace) -> tuple[Config, Path]:
    """Config and run folder of a command line with `add_run`; a new run must not exist yet."""
    if (args.config is None) == (args.resume is None):
        raise InputError(f"serl {args.command}: give either --config FILE or --resume RUN")
    if args.resume is not None:
        config = config_of_run(args.resume, args)
        for key, _ in parse_overrides(args.overrides):
            if not key.startswith(may_change(config)):
                raise InputError(f"--{key}: cannot change in a run that goes on; only {', '.join(may_change(config))} "
                                 "can")
        return config, args.resume
    config = config_of(args)
    folder = Path(config.runs) / config.name
    if leads() and (folder / "config.yaml").exists():  # the others may come when the first has begun to write it
        if not args.auto_resume:
            raise InputError(f"{folder}: this run exists; go on with --resume {folder}, or choose another --name")
        check_same(folder, config, "choose another name")
    return config, folder


def config_of_run(folder: Path, args: argparse.Namespace) -> Config:
    """The config of a run folder with the command line's overrides."""
    if not (folder / "config.yaml").is_file():
        raise InputError(f"{folder}: no config.yaml here, so this is not a run folder")
    return load_config(folder / "config.yaml", parse_overrides(args.overrides))


def may_change(config: Config) -> tuple[str, ...]:
    """MAY_CHANGE, without `train.steps` where λ goes by the share of them that is done."""
    return tuple(key for key in MAY_CHANGE if key != "train.steps" or config.hindsight.schedule != "fraction")


def check_same(folder: Path, config: Config, otherwise: str) -> None:
    """InputError, which ends with what to do `otherwise`, if the run in `folder` has other settings than `config`."""
    changed = [text for text in differences(load_config(folder / "config.yaml"), config)
               if not text.startswith(may_change(config))]
    if changed:
        raise InputError(f"{folder}: this run exists with other settings ({'; '.join(changed[:3])}); {otherwise}")


def differences(old: Config, new: Config) -> list[str]:
    """`section.key: old, now new` for every option that differs."""
    def flat(value: Any, prefix: str = "") -> dict[str, Any]:
        if not isinstance(value, dict):
            return {prefix: value}
        return {key: item for name, part in value.items()
                for key, item in flat(part, f"{prefix}.{name}" if prefix else name).items()}

    before, after = flat(dataclasses.asdict(old)), flat(dataclasses.asdict(new))
    return [f"{key}: {before.get(key)}, now {after.get(key)}" for key in dict.fromkeys([*before, *after])
            if before.get(key) != after.get(key)]


def leads() -> bool:
    """Whether this process is the first of those that a launcher has started, or the only one."""
    return ranks_of(os.environ).leads


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(document, ensure_ascii=False))
