"""CPU seconds of a training step's parts, with shared prompts and the plain way, interleaved.

    python experiments/bench/step.py --config experiments/recipes/serl_bird.yaml [--repetitions 5] [--json]

Rollout, teacher and update of one real batch of the recipe's first questions (learning rate 0: the weights stay).
Prints the median of each part, and the median of the paired ratios plain / shared.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

PARTS = ("rollout", "teacher", "update")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", required=True)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args, overrides = parser.parse_known_args()
    result = measure(args.config, overrides, args.repetitions, args.threads)
    if args.json:
        print(json.dumps(result))
        return
    print(f"{result['trajectories']} trajectories, {result['tokens']} tokens, {result['prompt_tokens']} of them prompt")
    for part in (*PARTS, "all"):
        plain, shared, ratio = (result[part][key] for key in ("plain", "shared", "ratio"))
        print(f"{part:8} plain {plain:6.2f} s   shared {shared:6.2f} s   ratio {ratio:.2f}")


def measure(path: str, overrides: list[str], repetitions: int, threads: int) -> dict[str, Any]:
    import torch

    from serl.config import load_config
    from serl.tracking import RunFolder
    from serl.train.trainer import Trainer
    from serl.workbench import open_workbench

    torch.set_num_threads(threads)
    pairs = [tuple(override.removeprefix("--").split("=", 1)) for override in overrides]
    config = load_config(path, [*pairs, ("train.lr", "0")])
    seconds = {share: defaultdict(list) for share in (False, True)}
    with tempfile.TemporaryDirectory() as folder, open_workbench(config) as bench:
        trainer = Trainer(bench, RunFolder(Path(folder)), None)
        questions = bench.preparer.prepare(trainer.train_split, range(config.rollout.questions))
        for _ in range(repetitions + 1):
            for share in (False, True):
                trainer.config = replace(config, model=replace(config.model, shared_prefix=share))
                trainer.bench = replace(bench, config=trainer.config)
                samples = one_step(trainer, questions, seconds[share])
    result: dict[str, Any] = {
        "trajectories": len(samples), "tokens": sum(len(sample.trajectory) for sample in samples),
        "prompt_tokens": sum(sample.first for sample in samples), "threads": threads, "repetitions": repetitions}
    for part in PARTS:
        result[part] = compare(seconds[False][part], seconds[True][part])
    result["all"] = compare(*([sum(parts) for parts in zip(*spent.values())] for spent in seconds.values()))
    return result


def one_step(trainer, questions, seconds: dict[str, list[float]]) -> list:
    from serl.train.samples import add_teacher
    from serl.train.update import update

    def timed(part: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        value = work()
        seconds[part].append(time.process_time() - start)
        return value

    bench, config = trainer.bench, trainer.config
    result = timed("rollout", lambda: trainer.roll_out(0, questions))
    samples = trainer.judge(result, questions)
    samples, _ = timed("teacher", lambda: add_teacher(trainer.teacher.model, samples, bench.encode, 0.5, config))
    timed("update", lambda: update(trainer.engine, samples, 0.5, config))
    return samples


def compare(plain: list[float], shared: list[float]) -> dict[str, float]:
    plain, shared = plain[1:], shared[1:]  # the first repetition warms caches and compiles kernels
    return {"plain": statistics.median(plain), "shared": statistics.median(shared),
            "ratio": statistics.median(one / other for one, other in zip(plain, shared))}


if __name__ == "__main__":
    main()
