"""`serl sft`: supervised warm start on traces that are written from gold."""

import argparse
import sys
from pathlib import Path

from serl import launch
from serl.commands.options import add_run, leads, print_json, run_of


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "sft", parents=[launch.options()], help="warm-start a policy on traces written from gold",
        description="Fine-tune on multi-turn traces (direct answers, probes, corrected mistakes) of the training "
                    "split. With model.path = scratch, a small model and its tokenizer are made first. A run that "
                    "was stopped goes on with --resume from its last whole epoch.")
    add_run(parser)
    parser.add_argument("--out", type=Path, help="model folder to write (default: runs/NAME/model)")
    parser.add_argument("--save-dtype", choices=("float32", "bfloat16"), default="float32",
                        help="precision of the saved weights")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON document")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if launch.asked(args):
        return launch.launch(args)
    from serl.train.warm_start import warm_start

    config, folder = run_of(args)
    out = args.out or folder / "model"
    result = warm_start(config, folder, out, args.save_dtype)
    if not leads():
        return 0
    if args.json:
        print_json(result)
    print(f"model: {out} after {result['steps']} steps", file=sys.stderr)
    return 0
