"""`serl credit RUN`: does the teacher's gap find the mistake? Every credit source beside its controls."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from serl.commands.options import config_of_run, print_json
from serl.errors import InputError
from serl.io import check_writable

LAST_STEPS = 4


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add `credit` to the `serl` command."""
    parser = subparsers.add_parser(
        "credit", help="which credit source finds the tokens that make sampled SQL wrong",
        description="AUC of the blame that each credit source, each hindsight and each control gives to the tokens "
                    "that make the failed SQL of a run's trajectories wrong, by the tree difference to gold. Any key "
                    "of the run's config can be overridden as --section.key VALUE.")
    parser.add_argument("run_dir", metavar="RUN", type=Path, help="run folder, as written by `serl train`")
    parser.add_argument("--step", metavar="N", type=int, nargs="+",
                        help=f"steps whose trajectories are read (default: the last {LAST_STEPS})")
    parser.add_argument("--checkpoint", metavar="DIR", type=Path,
                        help="weights of the student, and of its synchronized teacher (default: RUN's newest)")
    parser.add_argument("--teacher", metavar="DIR", type=Path, nargs="+", default=[],
                        help="weights of other teachers, frozen or trained on hindsight")
    parser.add_argument("--samples", metavar="N", type=int, default=300,
                        help="failed samples that are scored, by chance (default: %(default)s)")
    parser.add_argument("--out", metavar="DIR", type=Path,
                        help="where credit.json, credit.md and credit.png go (default: RUN/credit)")
    parser.add_argument("--json", action="store_true", help="print the table as JSON on stdout")
    parser.set_defaults(run=run, takes_overrides=True)


def run(args: argparse.Namespace) -> int:
    """Write the table and the picture. InputError for a run, a step or weights that cannot be read."""
    from serl.train.credit.report import measure_run, write_report

    if args.samples < 1:
        raise InputError("--samples should be at least 1")
    config, out = config_of_run(args.run_dir, args), args.out or args.run_dir / "credit"
    check_writable(out / "credit.json")
    measured = measure_run(args.run_dir, config, args.step or LAST_STEPS, args.checkpoint, args.teacher, args.samples)
    write_report(measured, out)
    if args.json:
        print_json(measured.to_json())
    print(f"{measured.markdown}\n\nwrote {out / 'credit.md'}, credit.json and credit.png",
          file=sys.stderr)
    return 0
