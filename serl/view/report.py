"""A run folder → RUN/report.html: one self-contained file that opens without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from serl.io import atomic_write_text
from serl.view.choice import TRAJECTORIES, choose
from serl.view.curves import curves_section
from serl.view.evaluation import evaluation_section
from serl.view.explorer import trajectory_archive
from serl.view.hindsight import hindsight_section
from serl.view.html import Html, join, tag
from serl.view.page import page
from serl.view.rundata import RunData
from serl.view.selection import selection_archive
from serl.view.timing import duration, phase_seconds, timing_section

SHOWN_PACKAGES = ("serl", "torch", "transformers", "sqlglot")


def write_report(run_dir: Path, out: Path | None = None, steps: Sequence[int] | None = None,
                 limit: int = TRAJECTORIES) -> Path:
    """Write the report of RUN to `out` (RUN/report.html by default) and return its path.

    It holds the trajectories of `steps`, or about `limit` of them spread over the run. Parts that the run has not
    produced yet are replaced by a sentence. Raises InputError when RUN is not a folder, one of its files is damaged,
    or a step was not recorded.
    """
    run = RunData.read(run_dir)
    trajectories, groups = trajectory_archive(choose(run_dir, steps, limit))
    selection, questions = selection_archive(run_dir)
    sections = [
        ("evaluation", "Evaluation", evaluation_section(run.summaries)),
        ("curves", "Learning curves", curves_section(run.metrics)),
        ("hindsight", "What hindsight did", hindsight_section(run.metrics)),
        ("time", "Where the time went", timing_section(run.metrics)),
        ("config", "Configuration", _config_section(run)),
    ]
    explorers = [("trajectories", f"Trajectories ({sum(group['size'] for group in trajectories['groups']):,})",
                  _placeholder(bool(groups.starts), "No trajectories have been recorded yet.")),
                 ("selection", f"Selection ({len(selection['columns'].get('id', ())):,})",
                  _placeholder(bool(questions.starts), "No evaluation has drawn samples yet."))]
    target = out if out is not None else run_dir / "report.html"
    index = {"trajectories": trajectories, "selection": selection}
    atomic_write_text(target, page(f"serl run {run.name}", _intro(run, trajectories), sections, explorers, index,
                                   [groups, questions]))
    return target


def _placeholder(filled: bool, missing: str) -> Html:
    """What stands in an explorer's place without data, without a script, and in a browser that is too old."""
    if not filled:
        return tag("p", missing, cls="note")
    return join([tag("noscript", tag("p", "This part needs JavaScript; the overview does not.", cls="note")),
                 tag("p", "This part needs a browser of 2023 or later (DecompressionStream).", cls="note old")])


def _intro(run: RunData, trajectories: Mapping[str, Any]) -> Html:
    """The run in one line of facts, and which of its trajectories the page holds."""
    steps = len(run.metrics)
    facts = [f"{steps} training step{'' if steps == 1 else 's'}"]
    if totals := phase_seconds(run.metrics):
        facts.append(f"{duration(sum(totals.values()))} of training")
    packages: dict[str, str] = run.environment.get("packages", {})
    facts += [f"{name} {packages[name]}" for name in SHOWN_PACKAGES if name in packages]
    facts += _machine(run.environment)
    return join([tag("p", " · ".join(facts), cls="facts run"), _share(trajectories)])


def _share(trajectories: Mapping[str, Any]) -> Html | None:
    """Which trajectories are here, where it is not all of them."""
    shown = sum(group["size"] for group in trajectories["groups"])
    if shown == trajectories["recorded"]:
        return None
    steps = ", ".join(str(step) for step in dict.fromkeys(group["step"] for group in trajectories["groups"]))
    return tag("p", f"{shown:,} of {trajectories['recorded']:,} recorded trajectories are here, of steps {steps}. "
                    "Others: serl view RUN --step N, or --trajectories N.", cls="facts share")


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
