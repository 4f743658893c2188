"""Models and GPUs that are known by name; their figures, and where these are from, are in `serl/assets/plan`."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from serl.errors import InputError
from serl.io import read_json

ASSETS = Path(__file__).parents[1] / "assets" / "plan"
MIB, GIB = 2**20, 2**30


@dataclass(frozen=True)
class Gpu:
    """`memory` bytes, `flops` of dense bfloat16 products a second, `bandwidth` bytes a second from its memory."""

    name: str
    memory: int
    flops: float
    bandwidth: float


@cache
def models() -> dict[str, dict[str, Any]]:
    """By name: `config` (the fields of its config.json that sizes follow from), `published` sizes, `source`."""
    return read_json(ASSETS / "models.json")


@cache
def gpus() -> dict[str, Gpu]:
    return {name: Gpu(name, row["memory_mib"] * MIB, row["bf16_tflops"] * 1e12, row["bandwidth_gb_s"] * 1e9)
            for name, row in read_json(ASSETS / "gpus.json").items()}


def gpu(name: str) -> Gpu:
    """A GPU by its name; InputError names those that are known."""
    if name not in gpus():
        raise InputError(f"--gpu {name}: not known; choose one of {', '.join(gpus())}, and --gpu-memory GIB for "
                         "another size")
    return gpus()[name]
