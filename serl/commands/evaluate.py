"""`serl eval`: greedy accuracy, vote@N and oracle@N of a checkpoint."""

import argparse
import sys
from pathlib import Path

from serl import launch
from serl.commands.options import add_config, config_of, leads, print_json


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "eval", parents=[launch.options()], help="evaluate a checkpoint on the evaluation split",
        description="Execution accuracy with intervals, on databases seen and unseen in training, by difficulty; "
                    "greedy, vote@N and oracle@N. Candidates and summary are written to --out.")
    add_config(parser)
    parser.add_argument("--checkpoint", metavar="DIR", help="model folder (default: the config's model.path)")
    parser.add_argument("-n", type=int, help="samples a question (default: eval.n of the config)")
    parser.add_argument("--select", metavar="NAMES", help="selectors among the samples: first,vote,oracle")
    parser.add_argument("--out", type=Path, help="folder to write (default: runs/NAME/eval/checkpoint)")
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON document")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if launch.asked(args):
        return launch.launch(args)
    select = f"[{args.select}]" if args.select else None
    chosen = {"model.path": args.checkpoint, "eval.n": args.n, "eval.select": select}
    args.overrides += [f"--{key}={value}" for key, value in chosen.items() if value is not None]
    config = config_of(args)

    from serl.evaluate.stage import evaluate_stage
    from serl.evaluate.table import plain_table
    from serl.parallel import open_ranks
    from serl.workbench import open_workbench

    out = args.out or Path(config.runs) / config.name / "eval" / "checkpoint"
    with open_ranks(config.engine.timeout_s) as ranks, open_workbench(config, ranks=ranks) as bench:
        summary = evaluate_stage(bench, out.name, out, config.eval.n)
    if not leads():
        return 0
    if args.json:
        print_json(summary)
    print(plain_table([summary]), file=sys.stderr)
    return 0
