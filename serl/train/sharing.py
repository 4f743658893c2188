"""Log-probs of many sequences with what they share computed once: prompts, common beginnings, teacher branches.

    prompt            once for all sequences that begin with it
    beginnings        sequences that go on alike are packed into one row (`serl.token_tree`)
    branches          encoded on the keys and values of the sequence they branch off from
    logits            of scored tokens only, `fused_head.CHUNK` of them at a time

Where nothing is gained by sharing, whole sequences are encoded, as in the plain way (but without masks: padding is on
the right, where causal attention never looks). The rule, from token counts alone: a prompt of P tokens with n sequences
behind it, R tokens in all, is shared if that saves `LEAST` tokens and `SHARE` of all tokens to encode:

    (n − 1) P  ≥  max(LEAST, SHARE · (n P + R))

Where ranks make passes together (`serl.partition`), every prompt is shared: a batch is two passes, whatever it holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from serl.backbone import Backbone, Lookup
from serl.fused_head import token_entropies, token_logprobs
from serl.ragged import pad
from serl.shared_prefix import Prompts
from serl.shared_rows import Rows
from serl.token_tree import pack
from serl.train.tail import Tail, spread

LEAST, SHARE = 64, 0.1

Branches = Sequence[Sequence[Tail]]  # those of each tail


def shared_logprobs(model, tails: Sequence[Tail], branches: Branches, temperature: float
                    ) -> tuple[list[torch.Tensor], list[list[torch.Tensor]]]:
    """See `serl.train.scoring.logprobs_with_branches`."""
    head = Backbone(model).head
    states = _encode(model, tails, branches)
    keys = [(i, j) for i, own in enumerate(branches) for j in range(len(own))]
    with torch.no_grad():
        found = iter(_logprobs(head, [branches[i][j] for i, j in keys], [states[key] for key in keys], temperature))
    return (_logprobs(head, tails, [states[i] for i in range(len(tails))], temperature),
            [[next(found) for _ in own] for own in branches])


@torch.no_grad()
def shared_entropies(model, tails: Sequence[Tail], temperature: float) -> list[torch.Tensor]:
    """Entropies [len(ids) − first] of the distributions that the tails' tokens come from, NaN where nobody asks."""
    hidden_ND = torch.cat(shared_states(model, tails))
    return spread(tails, token_entropies(hidden_ND, Backbone(model).head, temperature))


def shared_states(model, tails: Sequence[Tail]) -> list[torch.Tensor]:
    """The hidden states that predict the scored tokens of each tail, [scored, D], with gradients where enabled.

    For losses that look at the whole next-token distribution.
    """
    states = _encode(model, tails, [()] * len(tails))
    return [states[i] for i in range(len(tails))]


def is_worthwhile(prompt: int, own: Sequence[int]) -> bool:
    """Whether to share a prompt of so many tokens among sequences with so many tokens of their own (see above)."""
    saved = (len(own) - 1) * prompt
    return saved >= max(LEAST, SHARE * (len(own) * prompt + sum(own)))


def _encode(model, tails: Sequence[Tail], branches: Branches) -> dict[Any, torch.Tensor]:
    """Hidden states [scored, D] of tail i, at key i, and without gradient of its branch j, at key (i, j)."""
    backbone = Backbone(model)
    embed = Lookup(backbone, (tail.ids for own in (tails, *branches) for tail in own))
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, tail in enumerate(tails):
        groups.setdefault(tail.prompt, []).append(i)
    if backbone.together:
        kept = groups
    else:
        kept = {prompt: members for prompt, members in groups.items() if is_worthwhile(
            len(prompt), [len(tail.own) for i in members for tail in (tails[i], *branches[i])])}
    whole = [i for prompt, members in groups.items() if prompt not in kept for i in members]
    states = _encode_whole(backbone, embed, {i: tails[i] for i in whole})
    if kept:
        states |= _encode_shared(backbone, embed, kept, tails, branches)
    alone = [(i, j) for i in whole for j in range(len(branches[i]))]
    if alone:  # their trunks left no keys and values to go on from
        with torch.no_grad():
            states |= zip(alone, shared_states(model, [branches[i][j] for i, j in alone]))
    return states


def _encode_whole(backbone: Backbone, embed: Lookup, tails: Mapping[int, Tail]) -> dict[Any, torch.Tensor]:
    states, keys = {}, list(tails)
    for bucket in backbone.passes([len(tail.ids) for tail in tails.values()]):
        rows = [tails[keys[place]] for place in bucket]
        ids_BL = pad([tail.ids for tail in rows], 0, torch.long, backbone.device)
        hidden_BLD = backbone.decoder(inputs_embeds=embed(ids_BL), use_cache=False).last_hidden_state
        width = ids_BL.shape[1]
        states |= _pick(hidden_BLD.flatten(0, 1), [
            (keys[place], tail, row * width + np.arange(tail.shared, len(tail.ids)))
            for row, (place, tail) in enumerate(zip(bucket, rows))])
    return states


def _encode_shared(backbone: Backbone, embed: Lookup, groups: Mapping[tuple[int, ...], Sequence[int]],
                   tails: Sequence[Tail], branches: Branches) -> dict[Any, torch.Tensor]:
    """`groups` are the prompts to share, with the tails that begin with each."""
    states, width = {}, embed.table_SD.shape[1]
    prompts = Prompts(backbone, list(groups), embed)
    packed = [(owner, tree, [members[place] for place in chosen]) for owner, members in enumerate(groups.values())
              for tree, chosen in pack([tails[i].own for i in members], prompts.lengths[owner], width)]
    for bucket in backbone.passes([len(tree) for _, tree, _ in packed]):
        rows = [packed[place] for place in sorted(bucket)]  # those of a prompt stay in a run
        added = [((i, j), branch, row) for row, (*_, members) in enumerate(rows)
                 for i in members for j, branch in enumerate(branches[i])]
        wanted = [[path[tails[i].wanted] for i, path in zip(members, tree.paths)] for _, tree, members in rows]
        for _, branch, row in added:  # the tree's part of what the branch wants
            common = rows[row][1].common(branch.own)
            wanted[row].append(common[branch.wanted[branch.wanted < len(common)]])
        encoded = Rows(prompts, [owner for owner, *_ in rows], [tree for _, tree, _ in rows],
                       [np.concatenate(own) for own in wanted], keep=bool(added))
        states |= _pick(encoded.hidden_BSD.flatten(0, 1), [
            (i, tails[i], encoded.places(row, path)) for row, (_, tree, members) in enumerate(rows)
            for i, path in zip(members, tree.paths)])
        if added:
            hidden_ND, places = encoded.branch([(row, branch.own, branch.wanted) for _, branch, row in added])
            states |= _pick(hidden_ND, [(key, branch, place) for (key, branch, _), place in zip(added, places)])
    return states


def _pick(hidden_ND: torch.Tensor, found: Iterable[tuple[Any, Tail, np.ndarray]]) -> dict[Any, torch.Tensor]:
    """States that predict scored tokens, for each (key, tail, places of the states of the tail's own tokens)."""
    places = {key: place[tail.wanted] for key, tail, place in found}
    index = torch.from_numpy(np.concatenate(list(places.values()))).to(hidden_ND.device)
    return dict(zip(places, hidden_ND.index_select(0, index).split([len(place) for place in places.values()])))


def _logprobs(head: torch.nn.Linear, tails: Sequence[Tail], states: Sequence[torch.Tensor], temperature: float
              ) -> list[torch.Tensor]:
    """Log-probs [len(ids) − first] of each tail, NaN where nobody asks."""
    if not tails:
        return []
    hidden_ND = torch.cat(list(states))
    target_N = torch.tensor([tail.ids[place] for tail in tails for place in tail.targets], device=hidden_ND.device)
    return spread(tails, token_logprobs(hidden_ND, head, target_N, temperature))
