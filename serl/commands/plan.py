"""`serl plan`: memory of each GPU and time of a step, before they are paid for."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from serl.commands.options import add_config, config_of, print_json
from serl.errors import InputError

ABOUT = """\
What a run needs, from its model's config alone: nothing is downloaded, no weights are read.

Memory, for Ψ parameters, t of them trained, on N GPUs, w bytes a weight:
  weights w Ψ (ZeRO-3: / N); gradients 4 t (ZeRO-2, 3: / N); AdamW 8 t, and 4 t of float32 masters of 16-bit weights
  (ZeRO-1, 2, 3: / N). Activations and logits are counted: one micro-batch of the update runs on tensors without data.
  All parts, with their formulas and sources: serl/plan/memory.py.
Time: from a run's metrics (--run), from a throughput, or operations / (GPUs · peak · MFU): serl/plan/time.py.

What a config can say is said as everywhere: with --config FILE, and --section.key VALUE for single keys:
  --engine.kind deepspeed  --engine.zero 3  --engine.offload optimizer  --model.gradient_checkpointing true
  --model.dtype bfloat16  --model.lora.rank 32  --model.max_length 8192  --model.shared_prefix false
  --rollout.questions 128  --rollout.group_size 8  --rollout.engine vllm  --rollout.vllm.kv_cache_gib 30
  --rollout.vllm.sleep true  --agent.max_turns 4  --agent.max_new_tokens 1024  --grounding.budget 4096
  --train.micro_tokens 16384  --train.kl_beta 0.01  --hindsight.teacher.mode live  --sql.workers 32
Exit code 1: it does not fit."""


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser("plan", help="memory and time of a run before it is paid for", description=ABOUT,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    add_config(parser, required=False)
    parser.add_argument("--model", metavar="FILE|FOLDER|NAME",
                        help="a config.json, a model folder, or a known name such as Qwen2.5-7B (default: the config's "
                             "model.path)")
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="that train (default: %(default)s)")
    parser.add_argument("--gpu", default="H100", metavar="NAME", help="H100, H200, A100, L40S or 4090 (default: "
                        "%(default)s)")
    parser.add_argument("--gpu-memory", type=float, metavar="GIB", help="of one, instead of what the name says")
    parser.add_argument("--prompt", type=int, metavar="TOKENS", help="of a prompt (default: the longest)")
    parser.add_argument("--response", type=int, metavar="TOKENS",
                        help="behind it, all turns with observations (default: the longest)")
    parser.add_argument("--vocab", type=int, metavar="TOKENS", help="of the vocabulary, instead of the model's")
    parser.add_argument("--rollout-gpus", type=int, default=0, metavar="N",
                        help="other GPUs, on which vLLM samples (default: the same GPUs)")
    parser.add_argument("--tokens-per-second", type=float, metavar="N", help="sampled, by all GPUs together")
    parser.add_argument("--update-tokens-per-second", type=float, metavar="N",
                        help="encoded by the update, by all GPUs together")
    parser.add_argument("--mfu", type=float, metavar="SHARE", help="of the peak that products reach (default: 0.3)")
    parser.add_argument("--mbu", type=float, metavar="SHARE",
                        help="of the memory's bandwidth that decoding reaches (default: 0.5)")
    parser.add_argument("--run", dest="run_dir", type=Path, metavar="RUN",
                        help="take seconds from the metrics of this run folder")
    parser.add_argument("--json", action="store_true", help="print all figures as one JSON document")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code 1 where the planned stage does not fit."""
    from serl.plan.known import GIB, gpu
    from serl.plan.report import to_json, to_text
    from serl.plan.setting import Asked, setting_of

    config = config_of(args)
    card = gpu(args.gpu)
    for name in ("gpu_memory", "tokens_per_second", "update_tokens_per_second", "mfu", "mbu"):
        if (value := getattr(args, name)) is not None and not value > 0:
            raise InputError(f"--{name.replace('_', '-')} {value}: must be above 0")
    if args.gpu_memory is not None:
        card = replace(card, memory=int(args.gpu_memory * GIB))
    setting = setting_of(config, Asked(args.gpus, card, args.prompt, args.response, args.rollout_gpus))
    plan = make_plan(args, config, setting)
    if args.json:
        print_json(to_json(plan))
    else:
        print(to_text(plan), file=sys.stderr)
    return 0 if plan.fits else 1


def make_plan(args: argparse.Namespace, config, setting):
    """The plan of a command line; takes seconds, since the model's layers run."""
    from serl.plan.fit import proposals
    from serl.plan.memory import engine_memory, plan_memory, stages
    from serl.plan.parameters import count, read_config
    from serl.plan.report import Plan
    from serl.plan.time import MBU, MFU, Rates, measured_step, plan_step, sql_workers_needed

    model = args.model or config.model.path
    shape = read_config(model, args.vocab)
    counts = count(shape, setting.rank, setting.targets)
    others = [stage for stage in range(4) if stage != setting.zero] if setting.gpus > 1 else []
    found = {memory.setting.zero: memory for memory in stages(shape, counts, setting, others)}
    found[setting.zero] = plan_memory(shape, counts, setting)
    rates = Rates(args.tokens_per_second, args.update_tokens_per_second, args.mfu or MFU, args.mbu or MBU)
    step = (plan_step(counts, setting, rates, config.sql.workers) if args.run_dir is None
            else measured_step(args.run_dir, setting))
    chosen = found[setting.zero]
    return Plan(model, counts, setting, dict(sorted(found.items())),
                tuple(engine_memory(counts, setting)) if setting.sampler == "elsewhere" else (),
                [] if chosen.fits else proposals(shape, counts, setting), step, config.sql.workers,
                sql_workers_needed(setting, step.seconds.get("rollout", 0.0)))
