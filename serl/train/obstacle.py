"""Whether a model's log-probs can be computed by shared parts: what its config says, then a trial."""

import logging

import torch

from serl.backbone import Backbone
from serl.errors import InputError
from serl.model import eval_mode
from serl.train.scoring import Tail, logprobs
from serl.train.sharing import LEAST

_log = logging.getLogger(__name__)


def can_share(model) -> bool:
    """Whether prompts may be shared; else it is logged why the plain way is taken."""
    why = obstacle(model)
    if why is not None:
        _log.warning("%s: %s; every sequence is encoded whole, as with model.shared_prefix false",
                     type(model).__name__, why)
    return why is None


@torch.no_grad()
def obstacle(model) -> str | None:
    """Why shared computation does not work for this model; None: it gives the log-probs of a plain forward pass."""
    backbone = Backbone(model)
    if (why := backbone.obstacle()) is not None:
        return why
    size = min(backbone.embedding.num_embeddings, 64)
    prompt, *rest = ([(step * i + 3) % size for i in range(length)]
                     for step, length in ((7, 2 * LEAST), (5, 9), (11, 6)))
    tails = [Tail([*prompt, *own], len(prompt), len(prompt) - 1) for own in rest]
    try:
        with eval_mode(model):
            plain, shared = (torch.cat(logprobs(model, tails, 1.0, share)) for share in (False, True))
    except (TypeError, AttributeError, RuntimeError, ValueError, InputError) as error:
        return f"its attention cannot share a prompt ({error})"
    difference = (plain - shared).abs().max().item()
    tolerance = 1e-3 if backbone.embedding.weight.dtype in (torch.float32, torch.float64) else 0.1
    if not difference <= tolerance * max(1.0, plain.abs().max().item()):
        return f"its attention cannot share a prompt (log-probs differ by {difference:.2g})"
    return None
