"""Read a run folder for showing. Whatever the run has not written yet is simply empty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serl.errors import InputError
from serl.evaluate.summary import read_summaries
from serl.io import read_json
from serl.tracking import read_metrics


@dataclass(frozen=True)
class RunData:
    """What the report is made from, except trajectories, which are read a file at a time."""

    path: Path
    config_text: str
    environment: dict[str, Any]
    metrics: list[dict[str, Any]]
    summaries: list[dict[str, Any]]

    @classmethod
    def read(cls, run_dir: Path) -> RunData:
        """Read RUN. Raises InputError when there is no such folder or a file in it is damaged."""
        if not run_dir.is_dir():
            raise InputError(f"run folder {run_dir}: no such folder; give the folder that `serl train` wrote")
        config, environment = run_dir / "config.yaml", run_dir / "environment.json"
        return cls(
            path=run_dir,
            config_text=config.read_text(encoding="utf-8") if config.exists() else "",
            environment=read_json(environment) if environment.exists() else {},
            metrics=read_metrics(run_dir),
            summaries=read_summaries(run_dir),
        )

    @property
    def name(self) -> str:
        """The folder's own name, also when the path was given as `.`."""
        return self.path.resolve().name


def series(metrics: list[dict[str, Any]], key: str) -> list[tuple[float, float]]:
    """The points (step, value) of one metric, without the steps that lack it or where it is not finite."""
    points = ((row["step"], row.get(key)) for row in metrics)
    return [(float(step), float(value)) for step, value in points if is_finite(value)]


def is_finite(value: object) -> bool:
    """Whether `value` is a number that can be drawn."""
    return isinstance(value, (int, float)) and math.isfinite(value)
