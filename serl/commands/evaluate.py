"""`serl eval`: greedy accuracy, vote@N and oracle@N of a checkpoint."""

import argparse
import dataclasses
import sys
from pathlib import Path

from serl.commands.options import add_config, config_of, print_json


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "eval", help="evaluate a checkpoint on the evaluation split",
        description="Execution accuracy with intervals, on databases seen and unseen in training, by difficulty; "
                    "greedy, vote@N and oracle@N. Candidates and summary are written to --out.")
    add_config(parser)
    parser.add_argument("--checkpoint", metavar="DIR", help="model folder (default: the config's model.path)")
    parser.add_argument("-n", type=int, help="samples a question (default: eval.n of the config)")
    parser.add_argument("--out", type=Path, help="folder to write (default: runs/NAME/eval/checkpoint)")
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON document")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    config = config_of(args)
    if args.checkpoint:
        config = dataclasses.replace(config, model=dataclasses.replace(config.model, path=args.checkpoint))

    from serl.evaluate.table import plain_table
    from serl.train.run import evaluate_stage
    from serl.workbench import open_workbench

    out = args.out or Path(config.runs) / config.name / "eval" / "checkpoint"
    with open_workbench(config) as bench:
        n = config.eval.n if args.n is None else args.n
        summary = evaluate_stage(bench, out.name, out, n)
    if args.json:
        print_json(summary)
    print(plain_table([summary]), file=sys.stderr)
    return 0
