"""The engines that a config asks for, started when they are first needed and kept until the end of the run.

Several ranks share the servers: rank 0 starts them and gives them the weights, and every rank asks them.
"""

import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from serl.config import Config
from serl.errors import InputError
from serl.generate.stopping import StopRule
from serl.generate.vllm.client import ServerEndpoint
from serl.generate.vllm.endpoint import Endpoint
from serl.generate.vllm.generator import VLLMGenerator
from serl.generate.vllm.inprocess import EngineEndpoint
from serl.generate.vllm.launch import (
    check_installed,
    engine_arguments,
    environment,
    server_command,
    write_model_folder,
)
from serl.generate.vllm.server import LOG_SUFFIX, ServerProcess, free_port
from serl.parallel import ALONE, Ranks


class Engines:
    """A generator that always has the current weights, if `changed` is called whenever they change.

    All ranks call its methods alike, and `current` when none of them samples.
    """

    def __init__(self, make: Callable[[], VLLMGenerator], ranks: Ranks = ALONE) -> None:
        self._make, self._ranks = make, ranks
        self._generator: VLLMGenerator | None = None
        self._version, self._loaded = 0, -1

    def changed(self) -> None:
        """The policy's weights are others than before."""
        self._version += 1

    def current(self, model) -> VLLMGenerator:
        """The generator, with the weights of `model`."""
        self._generator = self._generator or self._make()
        if self._loaded != self._version:
            self._generator.load(model, self._version)
            self._loaded = self._version
        return self._generator

    def rest(self) -> None:
        """Let engines that can give their memory back, until `current` is asked for again."""
        if self._generator is not None:
            self._ranks.wait()  # another one may still be sampling
            if self._ranks.leads:
                self._generator.rest()
            self._loaded = -1

    @property
    def metrics(self) -> dict[str, float]:
        """Of the last time that the engines took over weights."""
        return {} if self._generator is None else self._generator.metrics

    def close(self) -> None:
        """Stop what was started."""
        if self._generator is not None:
            self._generator.close()


def make_engines(config: Config, model, tokenizer, rule: StopRule, ranks: Ranks = ALONE) -> Engines | None:
    """For `rollout.engine` vllm and vllm_server; None for hf.

    InputError where vLLM is needed and not installed, and where several ranks cannot reach the engines.
    """
    engine, urls, folder = config.rollout.engine, config.rollout.vllm.urls, config.rollout.vllm.folder
    if engine == "hf":
        return None
    if folder is not None and not Path(folder).is_dir():
        raise InputError(f"config: rollout.vllm.folder {folder}: no such folder")
    if engine == "vllm" and ranks.size > 1:
        raise InputError(f"config: rollout.engine vllm is an engine of one process, and this run has {ranks.size}; use "
                         "vllm_server, whose servers all of them ask")
    if not urls and len(set(ranks.gather(socket.gethostname()))) > 1:
        raise InputError("config: rollout.engine vllm_server starts servers that only its own machine reaches, and "
                         "this run has several; start servers, and name them by rollout.vllm.urls")
    if engine == "vllm" or not urls:
        check_installed()
    if config.rollout.vllm.sleep and model.device.type != "cuda":
        print("rollout.vllm.sleep has no effect: a CPU has no memory that an engine could give back", file=sys.stderr)
    return Engines(lambda: _generator(config, model, tokenizer, rule, ranks), ranks)


def _generator(config: Config, model, tokenizer, rule: StopRule, ranks: Ranks) -> VLLMGenerator:
    options = config.rollout.vllm
    if not options.urls and ranks.leads:
        print("starting vLLM: a minute or two, longer for a large model", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="serl_vllm_", dir=options.folder))
    dtype = options.dtype or config.model.dtype
    endpoints = _endpoints(config, folder, dtype, model, tokenizer) if ranks.leads else []
    if ranks.size > 1:
        urls = ranks.from_first([endpoint.url for endpoint in endpoints])
        endpoints = endpoints or [ServerEndpoint(url, options.request_timeout_s) for url in urls]
    vocabulary = min(len(tokenizer), model.get_input_embeddings().num_embeddings)
    return VLLMGenerator(endpoints, rule, config.seed, config.model.max_length, vocabulary, dtype, options.tolerance,
                         folder, ranks)


def _endpoints(config: Config, folder: Path, dtype: str, model, tokenizer) -> list[Endpoint]:
    options, gpu = config.rollout.vllm, model.device.type == "cuda"
    sleeps = options.sleep and gpu
    if config.rollout.engine == "vllm_server" and options.urls:
        return [ServerEndpoint(url, options.request_timeout_s, None, sleeps, config.model.max_length)
                for url in options.urls]
    write_model_folder(folder, model, tokenizer)
    arguments = engine_arguments(folder, options, dtype, config.model.max_length, gpu)
    added = environment(options, gpu)
    if config.rollout.engine == "vllm":
        return [EngineEndpoint(arguments, added, sleeps)]
    endpoints = []
    for number in range(options.servers):
        port = free_port()
        process = ServerProcess(server_command(arguments, port), added, folder / f"server_{number}{LOG_SUFFIX}",
                                options.startup_timeout_s)
        endpoints.append(ServerEndpoint(f"http://127.0.0.1:{port}", options.request_timeout_s, process, sleeps))
    return endpoints
