"""How bytes grow with layers: parts by their places, and two models that tell a third."""

import pytest
import torch

from serl.plan.depth import END, Bytes, Parts, of_all_layers


def counted(layers: int) -> Bytes:
    """Bytes of a made-up model: the last layer's part needs most in a shallow one, the first's in a deep one."""
    return Bytes(10 + 3 * layers, {(0, "last", 0): 200, (0, "first", 0): 20 * layers, END: 5})


@pytest.mark.parametrize("layers", [1, 3, 4, 5, 9, 10, 11, 64])
def test_two_models_tell_a_third(layers):
    asked = []
    found = of_all_layers(lambda count: asked.append(count) or counted(count), layers)
    assert found == counted(layers) and found.peak == max(200, 20 * layers)
    assert asked == ([layers] if layers <= 4 else [3, 4])


def test_parts_are_told_by_their_pass_and_their_place():
    """Two passes through three layers, the second of which goes back first: 1 is the bytes of the first part, ..."""
    layers, clock = [torch.nn.Linear(2, 2) for _ in range(3)], iter(range(1, 100))
    parts = Parts(layers, lambda: next(clock))
    outputs = []
    for _ in range(2):
        hidden = torch.ones(1, 2, requires_grad=True)
        for layer in layers:
            hidden = layer(hidden)
        outputs.append(hidden.sum())
    sum(reversed(outputs)).backward()
    assert parts.found() == {
        (0, "last", 0): 1, (0, "last", 1): 2, (0, "first", 1): 2, (0, "first", 0): 3,
        (1, "last", 0): 4, (1, "last", 1): 5, (1, "first", 1): 5, (1, "first", 0): 6, END: 7}
