"""What a run ran on: versions, hardware, git state, command line."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    *("serl", "torch", "transformers", "peft", "tokenizers", "sentence-transformers", "faiss-cpu", "faiss-gpu"),
    *("sqlglot", "numpy", "deepspeed", "vllm", "wandb"),
)


def describe_environment(argv: Sequence[str]) -> dict[str, Any]:
    """Versions, hardware, git state and command line; keys whose fact is unknown are null or empty."""
    return {
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "gpus": _gpus(),
        "git": _git_state(Path(__file__).resolve().parent),
        "argv": list(argv),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _gpus() -> list[str]:
    """Names of the NVIDIA GPUs, [] where the driver's tool is missing or fails."""
    if shutil.which("nvidia-smi") is None:
        return []
    names = _output_of(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    return names.splitlines() if names else []


def _git_state(folder: Path) -> dict[str, Any] | None:
    """Commit of the checkout that tracks this file and whether it has changes; None outside of one."""
    if shutil.which("git") is None:
        return None
    git = ["git", "-C", str(folder)]
    # Installed into somebody's own repository, the package must not report that repository's commit.
    if _output_of([*git, "ls-files", "--error-unmatch", Path(__file__).name]) is None:
        return None
    commit = _output_of([*git, "rev-parse", "--verify", "HEAD"])
    return {"commit": commit, "dirty": bool(_output_of([*git, "status", "--porcelain"]))} if commit else None


def _output_of(command: list[str]) -> str | None:
    """The command's stdout without its last newline; None when it fails or takes over 10 s."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
