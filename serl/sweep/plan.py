"""A sweep file → its runs.

    config: experiments/recipes/serl_bird.yaml     the recipe of all runs
    baseline: grpo                                  the arm that the others are compared with
    seeds: [0, 1, 2]
    set: {train.steps: 40}                          options of all runs
    arms:                                           named sets of options, on top of `set`
      grpo: {hindsight.source: none}
      serl: {}
    grid: {hindsight.lambda0: [0.25, 0.5]}          every combination, on top of each arm
    ceiling: oracle_diff                            the arm whose gain over the baseline the others are a share of
    metrics: [seen/greedy, seen/mean@8]             columns of the table: split and metric of the last evaluation
    curves: [eval/seen, eval/unseen]                metrics of metrics.jsonl, against updates

`arms` or `grid` must be there, the rest but `config` may be missing. Options are written `section.key: value` or
nested, as in a recipe. Relative paths are relative to the working directory, as everywhere.
"""

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from serl.config import Config, load_config
from serl.errors import InputError
from serl.io import read_text

KEYS = ("config", "baseline", "ceiling", "seeds", "set", "arms", "grid", "metrics", "curves")
METRICS, CURVES = ("seen/greedy", "unseen/greedy"), ("ex/train",)
_NAME = re.compile(r"[\w.=,+-]+")


@dataclass(frozen=True)
class Run:
    """One run: the arm's options as `(key, YAML text)`, as a command line has them."""

    arm: str
    seed: int
    options: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return f"{self.arm}-s{self.seed}"


@dataclass(frozen=True)
class Sweep:
    """What a sweep file says. `arms` holds each arm's options; the first one is the baseline if none is named."""

    name: str
    config: Path
    baseline: str
    ceiling: str | None
    seeds: tuple[int, ...]
    arms: Mapping[str, tuple[tuple[str, str], ...]]
    metrics: tuple[str, ...]
    curves: tuple[str, ...]

    @property
    def runs(self) -> list[Run]:
        """All arms with the first seed, then with the second: what is done after a while can be compared."""
        return [Run(arm, seed, options) for seed in self.seeds for arm, options in self.arms.items()]

    def config_of(self, run: Run, folder: Path, more: list[tuple[str, str]]) -> Config:
        """The resolved config of a run in `folder`."""
        return load_config(self.config, self.overrides(run, folder, more))

    def overrides(self, run: Run, folder: Path, more: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """What a run has on top of the recipe; `more` comes from the command line and wins."""
        own = [("tracking.group", json.dumps(self.name)), ("tracking.tags", json.dumps([run.arm])), *run.options, *more]
        return [*own, ("runs", json.dumps(str(folder))), ("name", json.dumps(run.name)), ("seed", str(run.seed))]


def read_sweep(path: Path) -> Sweep:
    """The sweep in a file; InputError says what in it is wrong."""
    try:
        tree = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML ({str(error).splitlines()[0]})") from error
    if not isinstance(tree, dict):
        raise InputError(f"{path}: a sweep is a mapping with the keys {', '.join(KEYS)}")
    for key in tree:
        if key not in KEYS:
            raise InputError(f"{path}: unknown key {key!r}; a sweep has {', '.join(KEYS)}")
    if not isinstance(tree.get("config"), str):
        raise InputError(f"{path}: config should name the recipe of the runs")
    seeds = _list(path, tree, "seeds", [0])
    if any(type(seed) is not int or seed < 0 for seed in seeds) or len(set(seeds)) < len(seeds):
        raise InputError(f"{path}: seeds should be different whole numbers")
    arms = _arms(path, tree)
    baseline, ceiling = tree.get("baseline", next(iter(arms))), tree.get("ceiling")
    for key, name in (("baseline", baseline), ("ceiling", ceiling)):
        if name not in arms and (key, name) != ("ceiling", None):
            raise InputError(f"{path}: {key} {name!r} is no arm; there are {', '.join(arms)}")
    if ceiling == baseline:
        raise InputError(f"{path}: ceiling and baseline are both {baseline}, which leaves nothing to share")
    metrics = tuple(_list(path, tree, "metrics", list(METRICS)))
    if any(not isinstance(metric, str) or metric.count("/") != 1 for metric in metrics):
        raise InputError(f"{path}: metrics are written split/metric, as in seen/greedy")
    curves = tuple(map(str, _list(path, tree, "curves", list(CURVES))))
    return Sweep(path.stem, Path(tree["config"]), baseline, ceiling, tuple(seeds), arms, metrics, curves)


def _list(path: Path, tree: Mapping[str, Any], key: str, default: list) -> list:
    value = tree.get(key, default)
    if not isinstance(value, list) or not value:
        raise InputError(f"{path}: {key} should be a list")
    return value


def _arms(path: Path, tree: Mapping[str, Any]) -> dict[str, tuple[tuple[str, str], ...]]:
    if not tree.get("arms") and not tree.get("grid"):
        raise InputError(f"{path}: neither arms nor grid, so there is nothing to compare")
    common, arms = _options(path, "set", tree.get("set", {})), tree.get("arms", {"": {}})
    if not isinstance(arms, dict):
        raise InputError(f"{path}: arms should be a mapping of names to options")
    grid = _options(path, "grid", tree.get("grid", {}))
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"{path}: grid: {key} should be a list of values")
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for name, own in arms.items():
        for values in itertools.product(*grid.values()):
            chosen = dict(zip(grid, values))
            labels = [f"{key.rpartition('.')[2]}={_plain(value)}" for key, value in chosen.items()]
            arm = ",".join([*([str(name)] if name != "" else []), *labels])
            if not _NAME.fullmatch(arm) or arm in found:
                raise InputError(f"{path}: an arm is called {arm!r}; names become folders: letters, digits and . = , "
                                 "+ - _ only, each once")
            options = common | _options(path, f"arms: {name}", own) | chosen
            found[arm] = tuple((key, json.dumps(value)) for key, value in options.items())
    return found


def _options(path: Path, where: str, tree: Any) -> dict[str, Any]:
    """Nested or dotted options as dotted ones."""
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise InputError(f"{path}: {where} should be a mapping of options")
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{name}": item for name, item in _options(path, f"{where}: {key}", value).items()}
        else:
            flat[str(key)] = value
    return flat


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
