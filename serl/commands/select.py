"""`serl select`: choose again among candidates that were sampled; `serl select fit`: learn the reward selector."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serl.commands.options import config_of_run, print_json
from serl.errors import InputError
from serl.io import check_writable, write_jsonl
from serl.select import NAMES, ORACLE, REWARD, Pick, selectors
from serl.select.adaptive import CONFIDENCE
from serl.select.reward import FILE, LearntReward

if TYPE_CHECKING:
    from serl.select.pool import Pool


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add `select` and `select fit` to the `serl` command."""
    parser = subparsers.add_parser(
        "select", help="choose again among sampled candidates, without a model",
        description="Choose among the candidates that `serl eval` has sampled. What is chosen depends on no gold; "
                    "where the file holds gold's verdicts, what the choice is worth is told after it. `serl select fit "
                    "RUN` learns the weights of the selector reward.")
    parser.add_argument("--trajectories", metavar="FILE", type=Path, help="a candidates.jsonl of `serl eval`")
    parser.add_argument("--method", metavar="M", help=f"all, or some of {','.join(NAMES)}")
    parser.add_argument("-n", type=int, help="how many of each question's samples to choose from (default: all)")
    parser.add_argument("--selector", metavar="PATH", type=Path,
                        help=f"weights of reward: a {FILE}, or the checkpoint that has it")
    parser.add_argument("--confidence", metavar="P", type=float, default=CONFIDENCE,
                        help="of adaptive: how sure the leader must be (default: %(default)s)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write one JSON line a question and method")
    parser.add_argument("--json", action="store_true", help="print choices and what they are worth as JSON on stdout")
    parser.set_defaults(run=run)
    fit = parser.add_subparsers(dest="action", metavar="").add_parser(
        "fit", help="learn the weights of the selector reward from a run's training rollouts",
        description="Logistic regression of whether a training rollout was right, on what execution, grounding and the "
                    "policy say of it. Weights, calibration table and plot are written into the checkpoint's folder. "
                    "Any key of the run's config can be overridden as --section.key VALUE.")
    fit.add_argument("run_dir", metavar="RUN", type=Path, help="run folder, as written by `serl train`")
    fit.add_argument("--last", metavar="N", type=int, help="learn from the last N steps that are kept (default: all)")
    fit.add_argument("--checkpoint", metavar="DIR", type=Path,
                     help="folder of weights to keep the selector with (default: RUN's newest)")
    fit.add_argument("--json", action="store_true", help="print what was learnt as JSON on stdout")
    fit.set_defaults(run=learn, takes_overrides=True)


def run(args: argparse.Namespace) -> int:
    """Choose. InputError for a file without candidates, or without what a selector looks at."""
    from serl.evaluate.rescore import rescore
    from serl.evaluate.selection_table import selection_table
    from serl.select.pool import check_facts, read_pools

    names = _names(args)
    reward = _reward(args, names)
    if not 0.5 <= args.confidence <= 1:
        raise InputError(f"--confidence {args.confidence} should be between 0.5 and 1")
    if args.out is not None:
        check_writable(args.out)
    pools = read_pools(args.trajectories)
    check_facts(args.trajectories, pools, names)
    most = max(len(pool.samples) for pool in pools)
    n = most if args.n is None else args.n
    if not 1 <= n <= most:
        raise InputError(f"-n {n} should be between 1 and {most}, which is what {args.trajectories} holds")
    picks = selectors(names, reward, args.confidence)
    chosen = [_chosen(pool, name, pick, n) for name, pick in picks.items() for pool in pools]
    worth = rescore(args.trajectories, picks, n, args.confidence)
    if args.out is not None:
        write_jsonl(args.out, chosen)
    if args.json:
        print_json({"trajectories": str(args.trajectories), "methods": names, "n": n, "questions": len(pools),
                    "chosen": chosen, "selection": worth})
    for name in names:
        none = sum(each["method"] == name and each["sql"] is None for each in chosen)
        print(f"{name}: {len(pools) - none} of {len(pools)} questions answered", file=sys.stderr)
    print("no gold in this file: nothing is known of what is right" if worth is None else f"\n{selection_table(worth)}",
          file=sys.stderr)
    return 0


def learn(args: argparse.Namespace) -> int:
    """Learn the reward selector of a run. InputError for a run, steps or data that cannot be read."""
    from serl.select.fit import fit_run, write_fitted
    from serl.train.credit.replay import newest_weights, recorded_steps

    config, steps = config_of_run(args.run_dir, args), recorded_steps(args.run_dir)
    if args.last is not None and args.last < 1:
        raise InputError("--last should be at least 1")
    folder = args.checkpoint or newest_weights(args.run_dir)
    if not (folder / "config.json").is_file() and not (folder / "adapter_config.json").is_file():
        raise InputError(f"--checkpoint {folder}: no model folder")
    check_writable(folder / FILE)
    fitted = fit_run(args.run_dir, config, steps[-(args.last or 0):])
    written = write_fitted(fitted, folder, args.run_dir.resolve().name)
    if args.json:
        print_json({"run": str(args.run_dir), "selector": str(written[0]), "intercept": fitted.reward.intercept,
                    "weights": dict(fitted.reward.weights), **fitted.to_json()})
    print(f"{fitted.markdown}\n\nwrote {', '.join(map(str, written))}", file=sys.stderr)
    return 0


def _names(args: argparse.Namespace) -> list[str]:
    if args.trajectories is None or args.method is None:
        raise InputError("serl select: give --trajectories FILE and --method M, or fit RUN")
    names = list(NAMES) if args.method == "all" else list(dict.fromkeys(args.method.split(",")))
    for name in names:
        if name == ORACLE:
            raise InputError("--method oracle: the oracle needs gold, so it is no selector; its bound is told beside "
                             "every method where the file holds gold's verdicts")
        if name not in NAMES:
            raise InputError(f"--method: no selector {name!r}, should be of: all, {', '.join(NAMES)}")
    return names


def _reward(args: argparse.Namespace, names: list[str]) -> LearntReward | None:
    if REWARD not in names:
        if args.selector is not None:
            raise InputError(f"--selector holds weights of the method {REWARD}, which is not asked for")
        return None
    if args.selector is None:
        raise InputError(f"--method {REWARD} needs --selector PATH: the checkpoint with which `serl select fit RUN` "
                         f"has kept its weights, or its {FILE}")
    return LearntReward.read(args.selector / FILE if args.selector.is_dir() else args.selector)


def _chosen(pool: Pool, name: str, pick: Pick, n: int) -> dict[str, Any]:
    """What a method takes; its place among the samples, null for the greedy answer and for none."""
    candidate = pool.choose(name, pick, n)
    place = next((place for place, sample in enumerate(pool.samples) if sample is candidate), None)
    return {"question_id": pool.question_id, "db_id": pool.db_id, "method": name, "sample": place,
            "sql": candidate and candidate.sql, "status": candidate and candidate.status}
