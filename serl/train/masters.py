"""Float32 copies of 16-bit weights, for an optimizer whose steps are smaller than 16 bits can tell.

bfloat16 has 8 significant bits: a weight w moves only by steps of about |w| / 256, and a change below half of one is
lost. So the optimizer moves the copies θ, and the model computes with them as rounded (arXiv 1710.03740):

    w = bfloat16(θ)        θ ← θ − lr · AdamW(Σ float32(g))        g: 16-bit gradients of w, one a micro-batch

Weights that are not 16-bit need no copy and are their own.
"""

from collections.abc import Callable

import torch

SHORT = (torch.bfloat16, torch.float16)


class Masters:
    """The trained weights of `model` as an optimizer is to have them: `parameters`, in the model's order."""

    def __init__(self, model: torch.nn.Module) -> None:
        trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self._short = {name: weight for name, weight in trained.items() if weight.dtype in SHORT}
        self._copies = {name: torch.nn.Parameter(weight.detach().float()) for name, weight in self._short.items()}
        self.parameters = [self._copies.get(name, weight) for name, weight in trained.items()]
        for name, weight in self._short.items():
            weight.register_post_accumulate_grad_hook(_mover(self._copies[name]))

    @torch.no_grad()
    def round(self) -> None:
        """Give the model the copies as they are now."""
        for name, weight in self._short.items():
            weight.copy_(self._copies[name])

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The copies, by the names of their weights."""
        return {name: copy.detach() for name, copy in self._copies.items()}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Take over copies. The model has them already, rounded: a checkpoint holds both."""
        if state.keys() != self._copies.keys():
            raise ValueError(f"a state of {len(state)} master weights for a model with {len(self._copies)}")
        for name, copy in self._copies.items():
            copy.copy_(state[name])


def _mover(copy: torch.nn.Parameter) -> Callable[[torch.Tensor], None]:
    """A hook that adds a weight's gradient to that of its copy as soon as it is there, and frees it."""
    def move(weight: torch.Tensor) -> None:
        gradient, weight.grad = weight.grad.float(), None
        copy.grad = gradient if copy.grad is None else copy.grad.add_(gradient)

    return move
