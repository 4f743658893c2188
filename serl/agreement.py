"""Whether the processes of a run agree on what they were started with, before any of them works.

Each tells a short name of everything that must be the same; who has another one than rank 0 is named. Weights are
told by `serl.generate.vllm.fingerprint`, which notices a single element that differs.
"""

import hashlib
import json
import socket
from collections.abc import Mapping

from serl.config import Config, to_dict
from serl.errors import InputError
from serl.parallel import Ranks


def check_agreement(ranks: Ranks, config: Config, models: Mapping[str, object]) -> None:
    """InputError on every rank if one has another config than rank 0, or other weights in a model of the same name."""
    if ranks.size == 1:
        return
    own = {"its config": config_hash(config)} | {f"the weights of {name}": weights_hash(model)
                                                 for name, model in models.items()}
    first, *others = ranks.gather((socket.gethostname(), own))
    for rank, (host, found) in enumerate(others, 1):
        wrong = [name for name in own if found.get(name) != first[1].get(name)]
        if wrong:
            raise InputError(f"rank {rank} on {host} differs from rank 0 on {first[0]} in {', '.join(wrong)}; start "
                             "all ranks with the same command, files and weights")


def config_hash(config: Config) -> str:
    """The same for configs of the same options."""
    return hashlib.sha256(json.dumps(to_dict(config), sort_keys=True).encode()).hexdigest()


def weights_hash(model) -> str:
    """The same for models of the same weights, names and precision."""
    from serl.generate.vllm.fingerprint import of_weight

    prints = [(name, str(weight.dtype), *of_weight(weight)) for name, weight in model.named_parameters()]
    return hashlib.sha256(json.dumps(prints).encode()).hexdigest()
