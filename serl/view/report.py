"""A run folder → RUN/report.html: one self-contained file that opens without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from serl.io import atomic_write_text
from serl.view.curves import curves_section
from serl.view.evaluation import evaluation_section
from serl.view.hindsight import hindsight_section
from serl.view.html import Html, join, tag
from serl.view.page import page
from serl.view.rundata import RunData
from serl.view.timing import duration, phase_seconds, timing_section
from serl.view.trajectories import trajectories_section

SHOWN_PACKAGES = ("serl", "torch", "transformers", "sqlglot")


def write_report(run_dir: Path, out: Path | None = None) -> Path:
    """Write the report of RUN to `out` (RUN/report.html by default) and return its path.

    Parts that the run has not produced yet are replaced by a sentence. Raises InputError when RUN is not a
    folder or one of its files is damaged.
    """
    run = RunData.read(run_dir)
    sections = [
        ("evaluation", "Evaluation", evaluation_section(run.summaries)),
        ("curves", "Learning curves", curves_section(run.metrics)),
        ("hindsight", "What hindsight did", hindsight_section(run.metrics)),
        ("time", "Where the time went", timing_section(run.metrics)),
        ("trajectories", "Example trajectories", trajectories_section(run)),
        ("config", "Configuration", _config_section(run)),
    ]
    target = out if out is not None else run_dir / "report.html"
    atomic_write_text(target, page(f"serl run {run.name}", _intro(run), sections))
    return target


def _intro(run: RunData) -> Html:
    """The run in one line of facts."""
    steps = len(run.metrics)
    facts = [f"{steps} training step{'' if steps == 1 else 's'}"]
    if totals := phase_seconds(run.metrics):
        facts.append(f"{duration(sum(totals.values()))} of training")
    packages: dict[str, str] = run.environment.get("packages", {})
    facts += [f"{name} {packages[name]}" for name in SHOWN_PACKAGES if name in packages]
    facts += _machine(run.environment)
    return tag("p", " · ".join(facts), cls="facts")


def _machine(environment: dict[str, Any]) -> list[str]:
    facts = []
    if "cpu_count" in environment:
        facts.append(f"{environment['cpu_count']} CPUs")
    if git := environment.get("git"):
        facts.append(f"commit {git['commit'][:10]}{' with local changes' if git['dirty'] else ''}")
    return facts


def _config_section(run: RunData) -> Html:
    """The resolved config as it was written, folded away because it is long."""
    if not run.config_text:
        return tag("p", "The run folder holds no config.yaml.", cls="note")
    parts = [tag("details", tag("summary", "config.yaml"), tag("pre", run.config_text))]
    if command := run.environment.get("argv"):
        parts.insert(0, tag("p", tag("span", "Command", cls="label"), tag("code", " ".join(command))))
    return join(parts)
