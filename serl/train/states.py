"""The hidden states that predict given tokens, for losses that look at the whole next-token distribution.

The head makes logits of a state, and can do so for a few tokens at a time: logits of [batch, tokens, vocabulary] never
exist. As in `serl.train.scoring`, there are two ways with the same numbers; the plain one is the oracle.
"""

from collections.abc import Sequence

import torch

from serl.backbone import Backbone
from serl.errors import InputError
from serl.model import eval_mode
from serl.ragged import pad
from serl.train.scoring import Tail
from serl.train.sharing import shared_states


def states(model, tails: Sequence[Tail], share: bool) -> list[torch.Tensor]:
    """For each scored token of each tail, the last hidden state before it: [scored, D]."""
    return (shared_states if share else _plain)(model, tails)


@torch.no_grad()
def check(model) -> None:
    """Raise InputError if this model's logits are not its head's: some models scale or cap them."""
    ids = [(7 * i + 3) % min(model.config.vocab_size, 64) for i in range(9)]
    with eval_mode(model):
        logits_QV = model(input_ids=torch.tensor([ids], device=model.device)).logits[0, :-1]
        (hidden_QD,) = states(model, [Tail(ids, 1, 0)], share=False)
        made_QV = model.get_output_embeddings()(hidden_QD)
    if not torch.allclose(made_QV, logits_QV, atol=1e-3 * max(1.0, logits_QV.abs().max().item())):
        raise InputError(f"{type(model).__name__}: its logits are not its head's output, so its distribution cannot be "
                         "made piece by piece; train.loss distillation and sdpo need that")


def check_pair(student, teacher) -> None:
    """Raise InputError if a teacher of its own cannot be compared with the student, distribution by distribution."""
    check(teacher)
    sizes = [model.get_output_embeddings().out_features for model in (student, teacher)]
    if sizes[0] != sizes[1]:
        raise InputError(f"hindsight.teacher.path: its distribution is over {sizes[1]} tokens and the student's over "
                         f"{sizes[0]}; train.loss distillation and sdpo need the same")


def _plain(model, tails: Sequence[Tail]) -> list[torch.Tensor]:
    out: list[torch.Tensor | None] = [None] * len(tails)
    for bucket in Backbone(model).passes([len(tail.ids) for tail in tails]):
        ids_BL = pad([tails[i].ids for i in bucket], 0, torch.long, model.device)
        real_BL = pad([[1] * len(tails[i].ids) for i in bucket], 0, torch.long, model.device)
        hidden_BLD = model.base_model(input_ids=ids_BL, attention_mask=real_BL, use_cache=False).last_hidden_state
        for i, hidden_LD in zip(bucket, hidden_BLD):
            out[i] = hidden_LD[[place - 1 for place in tails[i].targets]]
    return out
