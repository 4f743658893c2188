"""`serl view RUN`: write a run's report, one HTML file to open in any browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from serl.commands.options import print_json
from serl.errors import InputError
from serl.view.choice import TRAJECTORIES


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add `view` to the `serl` command."""
    parser = subparsers.add_parser("view", help="a run as one self-contained HTML file")
    parser.add_argument("run_dir", metavar="RUN", type=Path, help="run folder, as written by `serl train`")
    parser.add_argument("--step", metavar="N", type=int, nargs="+",
                        help="steps whose trajectories the file holds (default: steps spread over the run)")
    parser.add_argument("--trajectories", metavar="N", type=int, default=TRAJECTORIES,
                        help="about how many the file holds without --step, whole groups (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="where to write it (default: RUN/report.html)")
    parser.add_argument("--json", action="store_true", help='print {"report": PATH} on stdout')
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the report and say where it is. Raises InputError when RUN is no run folder, or lacks a step."""
    from serl.view.report import write_report

    if args.trajectories < 1:
        raise InputError("--trajectories should be at least 1")
    report = write_report(args.run_dir, args.out, args.step, args.trajectories)
    if args.json:
        print_json({"report": str(report)})
    else:
        print(f"wrote {report}", file=sys.stderr)
    return 0
