"""`serl sweep`: arms and seeds of one recipe, run in parallel, and compared."""

import argparse
import os
import sys
from pathlib import Path

from serl.commands.options import parse_overrides, print_json
from serl.errors import InputError


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "sweep", help="run and compare the arms and seeds of a sweep file",
        description="Run `serl train` for every arm and seed of a sweep file. Runs that are done are skipped, runs "
                    "that were stopped go on. Any key can be overridden for all runs as --section.key VALUE.")
    parser.add_argument("file", metavar="FILE", type=Path, help="see experiments/sweeps")
    parser.add_argument("--runs", metavar="DIR", type=Path, help="folder of the run folders (default: runs/NAME)")
    parser.add_argument("--workers", metavar="N", type=int, default=1, help="runs at a time (default: %(default)s)")
    parser.add_argument("--seeds", metavar="N", type=int, nargs="+", help="instead of the file's")
    parser.add_argument("--arms", metavar="NAME", nargs="+", help="only these")
    parser.add_argument("--retry", action="store_true", help="try runs again that failed")
    parser.add_argument("--only-table", action="store_true", help="run nothing, compare what is done")
    parser.add_argument("--out", metavar="DIR", type=Path,
                        help="where NAME.md, NAME.csv and NAME.png go (default: the folder of the runs)")
    parser.add_argument("--json", action="store_true", help="print the comparison as one JSON document")
    parser.set_defaults(run=run, takes_overrides=True)


def run(args: argparse.Namespace) -> int:
    """Exit code 1 if a run failed, or if no arm has a finished run yet."""
    from dataclasses import replace

    from serl.sweep.plan import read_sweep

    if args.workers < 1:
        raise InputError("--workers should be at least 1")
    sweep = read_sweep(args.file)
    for arm in args.arms or ():
        if arm not in sweep.arms:
            raise InputError(f"--arms {arm}: no such arm; there are {', '.join(sweep.arms)}")
    sweep = replace(sweep, seeds=tuple(args.seeds or sweep.seeds))
    folder = args.runs or Path("runs") / sweep.name
    states = {} if args.only_table else _run(sweep, folder, args)

    from serl.sweep.compare import compare
    from serl.sweep.table import text_of, write_comparison

    if args.arms:  # with those that they are compared with
        shown = {*args.arms, sweep.baseline, sweep.ceiling}
        sweep = replace(sweep, arms={name: options for name, options in sweep.arms.items() if name in shown})
    comparison = compare(sweep, folder, parse_overrides(args.overrides))
    if comparison is None:
        print(f"{folder}: no run of {args.file} is done yet", file=sys.stderr)
    else:
        out = write_comparison(comparison, sweep, args.file, args.out or folder)
        print(f"\n{text_of(comparison)}\n\nwrote {out}, .csv and .png", file=sys.stderr)
    if args.json:
        print_json({"states": states, "comparison": comparison and comparison.to_json()})
    return int("failed" in states.values() or comparison is None)


def _run(sweep, folder: Path, args: argparse.Namespace) -> dict[str, str]:
    from tqdm import tqdm

    from serl.sweep.run import FAILED, Runner, is_done, why_failed

    more, jobs = parse_overrides(args.overrides), []
    for run in sweep.runs:
        if args.arms is None or run.arm in args.arms:
            config = sweep.config_of(run, folder, more)  # every mistake in the file is found before the first run
            is_done(folder, config)
            options = [part for key, value in sweep.overrides(run, folder, more) for part in (f"--{key}", value)]
            jobs.append((config, ["--config", str(sweep.config), *options]))
    threads = max(1, (os.cpu_count() or 1) // args.workers)
    with tqdm(total=len(jobs), desc=f"sweep {sweep.name}", unit="run") as bar:
        def passed(name: str, state: str) -> None:
            bar.update()
            if state == FAILED:
                bar.write(f"{name} failed, see {folder / name}.log: {why_failed(folder, name)}", file=sys.stderr)

        return Runner(folder, threads, args.retry).run_all(jobs, args.workers, passed)
