"""`serl train`: reinforcement learning by a recipe, evaluation before and after, report."""

import argparse
import sys

from serl import launch
from serl.commands.options import add_run, leads, print_json, run_of


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "train", parents=[launch.options()], help="train a policy by RL with execution hindsight",
        description="Train by a recipe, evaluate before and after, write RUN/report.html. A run that was stopped "
                    "goes on with --resume, exactly where its last checkpoint left it. SIGTERM and Ctrl-C save what "
                    "is there and end the run with exit code 143 and 130; a second one does so at once.")
    add_run(parser)
    parser.add_argument("--json", action="store_true", help="print the summaries as one JSON document")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if launch.asked(args):
        return launch.launch(args)
    config, folder = run_of(args)

    from serl.config import to_dict
    from serl.evaluate.table import plain_table
    from serl.train.run import train_run

    summaries = train_run(config, folder)
    if not leads():
        return 0
    if args.json:
        print_json({"run": str(folder), "config": to_dict(config), "summaries": summaries})
    if summaries:
        print(plain_table(summaries), file=sys.stderr)
    print(f"\nreport: {folder / 'report.html'}\npicture: {folder / 'picture.png'}", file=sys.stderr)
    return 0
