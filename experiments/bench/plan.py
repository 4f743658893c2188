"""Is `serl plan` right? Peak memory of one update, planned and measured, on a CPU (Linux, glibc).

    python experiments/bench/plan.py [--cases 4M,30M,135M] [--json]

Each case is a model with random weights and two groups of random trajectories, in float32. A process of its own does a
tiny update, which loads what is loaded on first use, and then two of the case: after the first one the optimizer has
its moments. Measured is the most memory that is resident in the second one, above what was after the tiny one: weights,
gradients, optimizer, activations and all that is temporary. The plan knows the config and the lengths alone. A group is
a micro-batch, so that gradients are there beside the second one's activations. One trajectory of each is a token
shorter than the others, as they are in a run: of a batch of equal lengths the library drops the mask.

    case      model                     prompt/response/group, two groups
    4M        the embedded model's      1500/200/8            4M-plain   512/64/8, each sequence whole
                                                              4M-live    1500/200/8, with a live teacher in the update
    30M       8 layers, width 512       512/128/8             30M-lora   the same with adapters of rank 16
    135M      SmolLM2-135M's            256/32/4              30M-recompute   with gradient checkpointing
                                                              30M-zero1, 2, 3   by DeepSpeed, in one process

The plan is of tensors, so memory is measured while glibc gives back what is freed (MALLOC_MMAP_THRESHOLD_). By itself
it keeps blocks of up to 32 MiB for later, as many as the order of calls leaves it with. The last column is what was
resident then: what a machine must have, and no plan can tell from sizes alone.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # This folder comes first on a script's path, and `grounding.py` in it would hide the package of that name.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tqdm import tqdm

from experiments.bench.process import memory_mib

GOAL = 0.15
HINDSIGHT = 60  # tokens, for a live teacher
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}  # bytes: larger blocks are the system's own, and go when freed


@dataclass(frozen=True)
class Case:
    """A model by the fields of its config, and a shape."""

    fields: dict[str, Any]
    prompt: int
    response: int
    group: int
    shared: bool = True
    rank: int = 0
    checkpointing: bool = False
    live: bool = False
    zero: int = 0


SMALL = {"model_type": "qwen3", "vocab_size": 4096, "hidden_size": 256, "intermediate_size": 704,
         "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
         "tie_word_embeddings": True}
MEDIUM = SMALL | {"vocab_size": 8192, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8,
                  "num_attention_heads": 8, "num_key_value_heads": 4}
LARGE = {"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
         "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True}
TINY = SMALL | {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
CASES = {
    "4M": Case(SMALL, 1500, 200, 8),
    "4M-plain": Case(SMALL, 512, 64, 8, shared=False),
    "4M-live": Case(SMALL, 1500, 200, 8, live=True),
    "30M": Case(MEDIUM, 512, 128, 8),
    "30M-lora": Case(MEDIUM, 512, 128, 8, rank=16),
    "30M-recompute": Case(MEDIUM, 512, 128, 8, checkpointing=True),
    "135M": Case(LARGE, 256, 32, 4),
    "30M-zero1": Case(MEDIUM, 512, 128, 8, zero=1),
    "30M-zero2": Case(MEDIUM, 512, 128, 8, zero=2),
    "30M-zero3": Case(MEDIUM, 512, 128, 8, zero=3),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(usual()), help="with commas between (default: all; those with "
                        "zero where DeepSpeed is installed)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # one case, in its own process
    args = parser.parse_args()
    if args.measure:
        print(json.dumps({"mib": measure(CASES[args.measure])}))
        return 0
    rows = [{"case": name, "planned": planned(CASES[name]), "measured": measured(name, GIVEN_BACK),
             "kept": measured(name, {})} for name in tqdm(args.cases.split(","), desc="plan", unit="case")]
    print(json.dumps(rows) if args.json else table(rows))
    return 0 if all(abs(row["planned"] / row["measured"] - 1) <= GOAL for row in rows) else 1


def usual() -> list[str]:
    """The cases that can be measured here."""
    return [name for name, case in CASES.items() if not case.zero or find_spec("deepspeed") is not None]


def setting_for(case: Case):
    """The plan's setting of a case: one CPU, the PyTorch engine."""
    from serl.config import Config
    from serl.plan.known import gpu
    from serl.plan.made_up import FRAME
    from serl.plan.setting import Asked, setting_of

    # Of a shared prompt the last tokens are each row's own: one, or those behind a teacher's hindsight.
    own = (case.prompt + case.group * (case.response + FRAME) if case.shared
           else case.group * (case.prompt + case.response))
    return replace(setting_of(Config(), Asked(1, gpu("H100"), case.prompt, case.response)), turns=1, group=case.group,
                   questions=2, sampled=case.response, shared=case.shared, checkpointing=case.checkpointing,
                   rank=case.rank, micro_tokens=own, teacher="live" if case.live else "none", hindsight=HINDSIGHT,
                   engine="deepspeed" if case.zero else "torch", zero=case.zero, device="cpu")


def planned(case: Case) -> float:
    """MiB by the plan."""
    from serl.plan.memory import plan_memory
    from serl.plan.parameters import config_of_fields, count

    setting = setting_for(case)
    config = config_of_fields(case.fields)
    memory = plan_memory(config, count(config, setting.rank, setting.targets), setting)
    return max(memory.of("update"), memory.of("step")) / 2**20


def measured(name: str, environment: dict[str, str]) -> float:
    """MiB of a case in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--measure", name], check=True, stdout=subprocess.PIPE,
                          env=os.environ | {"OMP_NUM_THREADS": "1"} | environment)
    return json.loads(done.stdout)["mib"]


def measure(case: Case) -> float:
    """MiB of this process at most in an update, above what it had after a tiny one."""
    import torch

    from serl.train.update import update

    torch.set_num_threads(1)
    update(*made(replace(case, fields=TINY, prompt=90, response=8, group=2)))
    gc.collect()
    before = memory_mib("VmRSS")
    work = made(case)
    update(*work)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    update(*work)
    return memory_mib("VmHWM") - before


def made(case: Case) -> tuple:
    """What `update` takes: an engine, two groups of trajectories of one action, λ, and options."""
    import torch
    from transformers import AutoModelForCausalLM

    from serl import lora
    from serl.config import Config, EngineConfig, LoraConfig, TrainConfig
    from serl.plan.parameters import config_of_fields
    from serl.recompute import recompute_layers
    from serl.train.engines import make_engine

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config_of_fields(case.fields), attn_implementation="sdpa")
    if case.rank:
        lora.add(model, LoraConfig(rank=case.rank), "", 0)
    if case.checkpointing:
        recompute_layers(model)
    options = Config(model=replace(Config().model, shared_prefix=case.shared),
                     engine=EngineConfig("deepspeed", case.zero) if case.zero else EngineConfig(),
                     train=TrainConfig(lr=1e-6, micro_tokens=setting_for(case).micro_tokens))
    vocabulary = case.fields["vocab_size"]
    samples = [*group(case, vocabulary), *group(case, vocabulary - 1)]
    return make_engine(options, model, lambda step: 1.0), samples, 0.5, options


def group(case: Case, vocabulary: int) -> list:
    """Trajectories with their teacher's branches, if they have one; the last is a token shorter."""
    from experiments.bench.step import Shape, make_samples
    from experiments.bench.step_ways import branches

    shape = Shape(case.prompt, case.response, case.group)
    whole, shorter = (make_samples(replace(shape, response=shape.response - less), vocabulary) for less in (0, 1))
    samples = [*whole[:-1], shorter[-1]]
    if not case.live:
        return samples
    return [replace(sample, asked=own) for sample, own in zip(samples, branches(samples, vocabulary, HINDSIGHT))]


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'case':16}{'planned, MiB':>14}{'measured, MiB':>15}{'planned / measured':>20}"
             f"{'with glibc as it is':>21}"]
    lines += [f"{row['case']:16}{row['planned']:14.0f}{row['measured']:15.0f}"
              f"{row['planned'] / row['measured']:20.3f}{row['kept']:21.0f}" for row in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
