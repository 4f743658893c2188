"""A model of few layers tells what one of many needs: how the bytes of a forward and backward pass grow with layers.

A backward pass is cut where the work of a layer ends. Going down through the layers of one pass, activations go and
gradients come, the same at each layer, so that the most bytes in a layer's part of it change linearly from layer to
layer: the peak is in a part near the pass's beginning or its end. In what such a part needs, each layer more of the
model makes the same difference, too. So two models that differ by a layer tell the parts of all:

    bytes(L) = bytes(A) + (L − A) (bytes(B) − bytes(A)) / (B − A)        what is kept; each part; layers alike

Where prompts are shared there are two passes, and a weight's gradient from the first to go backward (what follows the
prompts) waits in PyTorch's engine for that from the second: gradients of all layers are there at once, in the weights'
type, beside those that an optimizer has. They are in the parts.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FEWEST = (3, 4)  # layers: with three, the second is the one before the last, too
NEAR = 2  # parts from either end of a pass that are told apart

# Which pass; whether layers are counted from the last or the first one; how many are between.
Place = tuple[int, str, int]
END: Place = (-1, "behind all layers", 0)


@dataclass(frozen=True)
class Bytes:
    """Kept for the backward pass when this begins; the most in each part, from the forward pass on."""

    kept: int
    parts: Mapping[Place, int]

    @property
    def peak(self) -> int:
        return max(self.parts.values())


class Parts:
    """Notes where a layer's part of a backward pass ends. `most` gives the most bytes since it was asked last."""

    def __init__(self, layers: Sequence[Any], most: Callable[[], int]) -> None:
        self._most, self._count = most, len(layers)
        self._ended: list[tuple[int, int]] = []
        for number, layer in enumerate(layers):
            layer.register_forward_pre_hook(lambda _, args, number=number: self._watch(number, args[0]))

    def _watch(self, number: int, hidden) -> None:
        if hidden.requires_grad:
            hidden.register_hook(lambda _: self._ended.append((number, self._most())))

    def found(self) -> dict[Place, int]:
        """The parts' bytes, by where they are; of layers in between, none."""
        parts: dict[Place, int] = {}
        passes: Counter[int] = Counter()
        for number, size in self._ended:
            for side, distance in (("last", self._count - 1 - number), ("first", number)):
                if distance < NEAR:
                    parts[passes[number], side, distance] = size
            passes[number] += 1
        return parts | {END: self._most()}


def of_all_layers(measure: Callable[[int], Bytes], layers: int) -> Bytes:
    """The bytes of a model with so many layers. `measure` takes a number of layers."""
    if layers <= max(FEWEST):
        return measure(layers)
    few, more = FEWEST
    one, other = measure(few), measure(more)

    def at(first: int, second: int) -> int:
        return first + (layers - few) * (second - first) // (more - few)

    return Bytes(at(one.kept, other.kept), {place: at(size, other.parts[place]) for place, size in one.parts.items()})
