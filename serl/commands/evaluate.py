"""`serl eval`: greedy accuracy of a checkpoint, and what selection among N samples makes of it."""

import argparse
import sys
from pathlib import Path

from serl import launch
from serl.commands.options import add_config, config_of, leads, print_json
from serl.select import NAMES, ORACLE

MOST_COLUMNS = 3  # selectors that the table by difficulty shows beside greedy and the mean


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "eval", parents=[launch.options()], help="evaluate a checkpoint on the evaluation split",
        description="Execution accuracy with intervals, on databases seen and unseen in training, by difficulty; "
                    "greedy, each selector at N = 1, 2, 4, ... of the same samples, and oracle@N, their upper bound. "
                    "Candidates and summary are written to --out; `serl select` chooses among them again.")
    add_config(parser)
    parser.add_argument("--checkpoint", metavar="DIR", help="model folder (default: the config's model.path)")
    parser.add_argument("-n", type=int, help="samples a question (default: eval.n of the config)")
    parser.add_argument("--select", metavar="NAMES",
                        help=f"selectors among the samples: all, or some of {','.join((*NAMES, ORACLE))}")
    parser.add_argument("--out", type=Path, help="folder to write (default: runs/NAME/eval/checkpoint)")
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON document")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if launch.asked(args):
        return launch.launch(args)
    names = ",".join((*NAMES, ORACLE)) if args.select == "all" else args.select
    chosen = {"model.path": args.checkpoint, "eval.n": args.n, "eval.select": f"[{names}]" if names else None}
    args.overrides += [f"--{key}={value}" for key, value in chosen.items() if value is not None]
    config = config_of(args)

    from serl.evaluate.selecting import reward_of
    from serl.evaluate.selection_table import selection_table
    from serl.evaluate.stage import evaluate_stage
    from serl.evaluate.table import plain_table
    from serl.parallel import open_ranks
    from serl.workbench import open_workbench

    reward_of(config)  # what it needs must be there before anything is sampled
    out = args.out or Path(config.runs) / config.name / "eval" / "checkpoint"
    with open_ranks(config.engine.timeout_s) as ranks, open_workbench(config, ranks=ranks) as bench:
        summary = evaluate_stage(bench, out.name, out, config.eval.n)
    if not leads():
        return 0
    if args.json:
        print_json(summary)
    # Many selectors would make it wider than a terminal; those are in the next table.
    few = len(config.eval.select) <= MOST_COLUMNS
    print(plain_table([summary], None if few else ["greedy", f"mean@{config.eval.n}"]), file=sys.stderr)
    if config.eval.n > 1:
        print(f"\n{selection_table(summary['selection'])}", file=sys.stderr)
    return 0
