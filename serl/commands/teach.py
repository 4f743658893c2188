"""`serl teach RUN`: train a teacher on hindsight, from a run's own rollouts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from serl.commands.options import config_of_run, print_json


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add `teach` to the `serl` command."""
    parser = subparsers.add_parser(
        "teach", help="train a teacher on hindsight, from a run's own rollouts",
        description="Fine-tune a copy of a policy to say, from the database's answer to an action, what should have "
                    "been written instead: the nearest right solution of the same question's trajectories. No gold is "
                    "used. Measure the teacher with `serl credit RUN --teacher DIR` on steps that it has not seen; "
                    "give it to training with hindsight.teacher.path DIR and hindsight.teacher.mode frozen. Options: "
                    "--teach.levels '[exec, exec+verdict]', --teach.contrast 1, and any other key of the run's config "
                    "as --section.key VALUE.")
    parser.add_argument("run_dir", metavar="RUN", type=Path, help="run folder, as written by `serl train`")
    parser.add_argument("--step", metavar="N", type=int, nargs="+",
                        help="steps whose trajectories are learned from (default: all)")
    parser.add_argument("--start", metavar="MODEL",
                        help="weights to start from, as model.path (default: RUN's newest checkpoint)")
    parser.add_argument("--out", metavar="DIR", type=Path, help="model folder to write (default: RUN/teacher)")
    parser.add_argument("--json", action="store_true", help="print the card as JSON on stdout")
    parser.set_defaults(run=run, takes_overrides=True)


def run(args: argparse.Namespace) -> int:
    """Train and write. InputError for a run, steps, weights or a folder that cannot be used."""
    from serl.train.teach.school import teach

    config = config_of_run(args.run_dir, args)
    taught = teach(args.run_dir, config, args.step, args.start, args.out or args.run_dir / "teacher")
    if args.json:
        print_json(taught.card)
    print(f"teacher: {taught.folder}, of epoch {taught.kept}", file=sys.stderr)
    return 0
