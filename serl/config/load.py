"""Read a config: a YAML file plus dotted command-line overrides, checked.

An unknown key, a value of the wrong type and a value out of range are input errors that name the key. Relative
paths are relative to the working directory, only `extends` is relative to the file that says it.
"""

import dataclasses
import math
import os
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import yaml

from serl.config.bounds import CHOICES, RANGES
from serl.config.data import check_data
from serl.config.guards import check_guards
from serl.config.hindsight import check_level, check_wording
from serl.config.options import Config
from serl.config.reward import check_reward
from serl.config.rules import (
    check_agent,
    check_credit,
    check_distillation,
    check_engine,
    check_form,
    check_grounding,
    check_lora,
    check_loss,
    check_overlap,
    check_partition,
    check_selection,
    check_sft,
    check_teacher,
    check_tolerance,
    check_tools,
)
from serl.config.teach import check_teach
from serl.errors import InputError

SHORT = {"reward": "preset"}  # a section that a word may stand for: it is this option of it
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


def load_config(path: Path | str | None, overrides: list[tuple[str, str]] = ()) -> Config:
    """Read `path` (its `extends: other.yaml` first), apply `("section.key", "yaml value")` overrides.

    Raises InputError for a missing or malformed file, an unknown key, a wrong type or a bad value.
    """
    tree = _read_tree(Path(path)) if path is not None else {}
    for dotted, text in overrides:
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InputError(f"--{dotted} {text!r}: not a YAML value ({error})") from error
        dotted += f".{SHORT[dotted]}" if dotted in SHORT and isinstance(value, str) else ""
        _set(tree, dotted.split("."), value, dotted)
    config = _build(Config, tree, "", str(path) if path is not None else "command line")
    validate(config)
    return config


def to_dict(config: Config) -> dict:
    """The resolved config as plain values, which YAML and JSON can hold and `load_config` reads back."""
    return _plain(dataclasses.asdict(config))


def validate(config: Config) -> None:
    """Check choices, ranges and rules between options; InputError names the option."""
    for dotted, choices in CHOICES.items():
        if (value := _get(config, dotted)) not in choices:
            raise InputError(f"config: {dotted} is {value!r}; choose one of {', '.join(map(str, choices))}")
    for dotted, (low, high) in RANGES.items():
        value = _get(config, dotted)
        if value is None:  # optional, and not given
            continue
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = f"at least {low}" if high is None else f"between {low} and {high}"
            raise InputError(f"config: {dotted} is {value}; it must be {bounds}")
    if config.data.train_from >= config.data.train_to:
        raise InputError(f"config: data.train_from {config.data.train_from} must be below data.train_to "
                         f"{config.data.train_to}")
    if not 0 <= config.hindsight.eps_low < 1:
        raise InputError(f"config: hindsight.eps_low is {config.hindsight.eps_low}; "
                         "it must be in [0, 1), or a weight could reach 0 and flip no credit at all")
    if config.hindsight.source == "oracle_diff" and not config.hindsight.allow_gold:
        raise InputError("config: hindsight.source oracle_diff gives credit by gold SQL; set hindsight.allow_gold to "
                         "true if that is meant")
    for dotted in ("rollout.temperature", "eval.temperature", "rollout.deadline_s", "engine.timeout_s"):
        if (value := _get(config, dotted)) is not None and not value > 0:
            raise InputError(f"config: {dotted} is {_get(config, dotted)}; it must be above 0")
    if not config.rollout.patience_s >= 0:
        raise InputError(f"config: rollout.patience_s is {config.rollout.patience_s}; it must be 0 or above")
    check_level(config.hindsight.level, config.hindsight.allow_gold)
    check_wording(config.hindsight.wording)
    check_grounding(config.grounding)
    check_agent(config.agent)
    check_tools(config)
    check_reward(config.reward)
    check_credit(config)
    check_form(config)
    check_engine(config.rollout)
    check_tolerance(config)
    check_lora(config.model)
    check_loss(config.train)
    check_guards(config.train.guards)
    check_overlap(config)
    check_partition(config)
    check_distillation(config)
    check_teacher(config.hindsight)
    check_teach(config.teach)
    check_data(config.data)
    check_sft(config)
    check_selection(config)
    _validate_schedule(config)


def _validate_schedule(config: Config) -> None:
    hindsight, total = config.hindsight, config.train.steps * config.train.updates_per_batch
    if hindsight.schedule == "fraction" and total and hindsight.decay_fraction * total <= hindsight.warmup_updates:
        raise InputError(f"config: hindsight.decay_fraction {hindsight.decay_fraction} of {total} updates leaves "
                         f"nothing after hindsight.warmup_updates {hindsight.warmup_updates}")


def _read_tree(path: Path) -> dict:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot read this config file ({error.strerror}); "
                         "recipes are in experiments/recipes/") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from error
    tree = {} if tree is None else _expand(tree)
    if not isinstance(tree, dict):
        raise InputError(f"{path}: a config is a mapping of sections, not a {type(tree).__name__}")
    parent = tree.pop("extends", None)
    tree |= {key: {name: tree[key]} for key, name in SHORT.items() if isinstance(tree.get(key), str)}
    return tree if parent is None else _merge(_read_tree(path.parent / parent), tree)


def _expand(value: object) -> object:
    """`${NAME:-default}` in the strings of a file becomes the environment variable NAME, or the default."""
    if isinstance(value, dict):
        return {key: _expand(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item) for item in value]
    if not isinstance(value, str):
        return value
    return _VARIABLE.sub(lambda match: os.environ.get(match[1]) or match[2], value)


def _merge(base: dict, over: dict) -> dict:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = _merge(base[key], value) if both else value
    return merged


def _set(tree: dict, keys: list[str], value: object, dotted: str) -> None:
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
        if not isinstance(tree, dict):
            raise InputError(f"--{dotted}: {key} is a value, not a section")
    tree[keys[-1]] = value


def _get(config: object, dotted: str) -> object:
    for key in dotted.split("."):
        config = getattr(config, key)
    return config


def _build(cls: type, tree: dict, prefix: str, source: str) -> object:
    if not isinstance(tree, dict):
        raise InputError(f"{source}: {prefix.rstrip('.') or 'config'} is a section, not {tree!r}")
    hints = typing.get_type_hints(cls)
    unknown = sorted(set(tree) - set(hints), key=str)
    if unknown:
        raise InputError(f"{source}: unknown key {prefix}{unknown[0]}; known here: {', '.join(hints)}")
    values = {}
    for key, value in tree.items():
        kind = hints[key]
        if dataclasses.is_dataclass(kind):
            values[key] = _build(kind, {} if value is None else value, f"{prefix}{key}.", source)
        else:
            values[key] = _coerce(kind, value, f"{prefix}{key}", source)
    return cls(**values)


def _coerce(kind: object, value: object, dotted: str, source: str) -> object:
    """`value` as `kind`: int to float, list to tuple, and YAML 1.1's string for 1e-6; else refuse."""
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    for option in options:
        if option is type(None) and value is None:
            return None
        if typing.get_origin(option) is dict and isinstance(value, dict):
            return {key: _coerce(float, item, f"{dotted}.{key}", source) for key, item in _flat(value)}
        is_list = typing.get_origin(option) is tuple and isinstance(value, (list, tuple))
        if is_list and all(isinstance(item, str) for item in value):
            return tuple(value)
        if option is float and not isinstance(value, bool):
            try:
                number = float(value)
            except (TypeError, ValueError):
                continue
            if math.isfinite(number):
                return number
        if option is int and isinstance(value, int) and not isinstance(value, bool):
            return value
        if option is str and value is False and "off" in CHOICES.get(dotted, ()):
            return "off"  # which YAML 1.1 takes for a false
        if option in (str, bool) and isinstance(value, option):
            return value
        if option is str and isinstance(value, (int, float)) and not isinstance(value, bool):
            return str(value)
    names = " or ".join(getattr(option, "__name__", str(option)) for option in options)
    raise InputError(f"{source}: {dotted} is {value!r}; it must be {names}")


def _flat(tree: dict, prefix: str = "") -> Iterator[tuple[str, object]]:
    """`{a: {b: 1}}` as `a.b`: 1: keys that hold dots may be written in either way."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
