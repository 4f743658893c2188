"""What runs inside of a vLLM engine: its side of the weight transfer, and fingerprints of the weights it has.

vLLM imports this module in its workers, named by `--worker-extension-cls`; the import makes the transfer backend
`serl_file` known, which `--weight-transfer-config` chooses.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from safetensors import safe_open
from vllm.distributed.weight_transfer import WeightTransferEngine, WeightTransferEngineFactory
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.model_executor.layers.linear import LinearBase
from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from serl.generate.vllm.fingerprint import of_vector, of_weight, signs

BACKEND = "serl_file"


@dataclass
class FileInit(WeightTransferInitInfo):
    """Nothing has to be agreed on."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):
    """Weights, named as in a checkpoint, in one safetensors file that this worker can read."""

    path: str


class FileTransfer(WeightTransferEngine[FileInit, FileUpdate]):
    """Weights from a file, on any device, between any two machines that share a folder."""

    init_info_cls = FileInit
    update_info_cls = FileUpdate

    def init_transfer_engine(self, init_info: FileInit) -> None:
        """Needs no connection."""

    def start_weight_update(self) -> None:
        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict) -> None:
        self.receive_weights(self.parse_update_info(update_info))
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: FileUpdate) -> None:
        with safe_open(update_info.path, framework="pt") as file:
            self.model.load_weights((name, file.get_tensor(name)) for name in file.offset_keys())

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)
        # On a CPU a head that is tied to the embedding multiplies by a packed copy of it. The reload fills only the
        # embedding, and the head would go on with the weights from before.
        for module in self.model.modules():
            if isinstance(module, VocabParallelEmbedding) and hasattr(module, "cpu_linear"):
                module.quant_method.process_weights_after_loading(module)

    def shutdown(self) -> None:
        """Holds nothing."""


WeightTransferEngineFactory.register_engine(BACKEND, FileTransfer)


class Fingerprints:
    """Methods that vLLM adds to its worker; `collective_rpc` calls them."""

    def weight_fingerprints(self) -> dict[str, list]:
        """[s, n, how] by the trainer's names; of what tensor parallelism has split, nothing."""
        if self.parallel_config.tensor_parallel_size > 1:
            return {}
        model = self.model_runner.get_model()
        fused = getattr(model, "packed_modules_mapping", {})
        with torch.inference_mode():
            return {name: [*pair, how] for name, pair, how in _fingerprints(model, fused)}


def _fingerprints(model: torch.nn.Module, fused: dict[str, list[str]]) -> Iterator[tuple[str, list[float], str]]:
    for path, module in model.named_modules():
        parent, _, last = path.rpartition(".")
        parts = [f"{parent}.{part}" if parent else part for part in fused.get(last, [last])]
        if isinstance(module, LinearBase):
            yield from _linear(module, parts)
        elif isinstance(module, VocabParallelEmbedding):
            # Rows beyond the vocabulary are padding; a head applies its weights, which may be another copy.
            how = "applied" if hasattr(module, "cpu_linear") and last == "lm_head" else "stored"
            pair = of_vector(_applied(module)[: module.org_vocab_size]) if how == "applied" else of_weight(
                module.weight[: module.org_vocab_size])
            yield f"{path}.weight", pair, how
        else:
            for name, weight in module.named_parameters(recurse=False):
                yield f"{path}.{name}", of_weight(weight), "stored"


def _linear(module: LinearBase, parts: list[str]) -> Iterator[tuple[str, list[float], str]]:
    sizes = getattr(module, "output_partition_sizes", [module.output_size])
    if len(sizes) != len(parts):
        return
    intact = module.weight.dim() == 2 and module.weight.shape[0] == sum(sizes)
    rows = (module.weight if intact else _applied(module)).split(sizes)
    for part, values in zip(parts, rows):
        yield f"{part}.weight", of_weight(values) if intact else of_vector(values), "stored" if intact else "applied"
    if getattr(module, "bias", None) is not None:
        for part, values in zip(parts, module.bias.split(sizes)):
            yield f"{part}.bias", of_vector(values), "stored"


def _applied(module: torch.nn.Module) -> torch.Tensor:
    """W x for the x of the fingerprint, [N]."""
    width = getattr(module, "input_size_per_partition", None) or getattr(module, "embedding_dim", None)
    dtype, device = module.params_dtype, module.weight.device
    x_1K = signs(width, 1).to(dtype=dtype, device=device)[None]
    return module.quant_method.apply(module, x_1K, None)[0]
