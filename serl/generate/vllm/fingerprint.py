"""Fingerprints of weights: two numbers a parameter, which trainer and engine compute each for themselves.

    y = W x,   s = u · y,   n = |y|          x, u: fixed vectors of ±1;  y = w for a vector w

An engine may pack weights into a form of its own, or fuse several layers into one. Then it cannot show W any more, but
it can still apply it: y is what its layer makes of x, and the rows of a fused layer fall apart into its parts. A change
of one element of W by d changes s by d; what rounding does to s is small against n (`TOLERANCE`).
"""

from collections.abc import Mapping

import torch

# Of |s − s'| / n. Stored weights are compared in float64: equal, but for the order of summation. Applied ones carry the
# rounding of the engine's product: about K^½ 2⁻²⁴ in float32, 2⁻⁹ / 3^½ in bfloat16, with room to spare.
TOLERANCE = {"stored": 1e-9, "float32": 1e-5, "bfloat16": 1e-2}
ROWS = 4096  # converted to float64 at once


def signs(size: int, salt: int) -> torch.Tensor:
    """`size` fixed values of ±1, float64 on the CPU: the same on every machine."""
    bits = torch.randint(0, 2, (size,), generator=torch.Generator().manual_seed(1_000_003 * salt + size))
    return (2 * bits - 1).double()


def of_vector(value_N: torch.Tensor) -> list[float]:
    """[s, n] of a vector, or of a layer's output for `signs(K, 1)`."""
    value_N = value_N.detach().double().cpu().flatten()
    return [float(signs(len(value_N), 2) @ value_N), float(value_N.norm())]


def of_weight(weight: torch.Tensor) -> list[float]:
    """[s, n] of a stored weight: a vector, or a matrix [N, K] (more dimensions count as K)."""
    if weight.dim() < 2:
        return of_vector(weight)
    weight_NK = weight.detach().flatten(1)
    sign_K = signs(weight_NK.shape[1], 1).to(weight.device)
    return of_vector(torch.cat([rows.double() @ sign_K for rows in weight_NK.split(ROWS)]))


def differing(trainer: Mapping[str, list[float]], engine: Mapping[str, list], dtype: str) -> list[str]:
    """Names, in the trainer's order, of parameters that both have and that are not the same.

    The engine says of each how it was read: `[s, n, "stored"]` or `[s, n, "applied"]`.
    """
    out = []
    for name, (expected, size) in trainer.items():
        if name in engine:
            found, _, how = engine[name]
            if not abs(found - expected) <= TOLERANCE["stored" if how == "stored" else dtype] * max(size, 1e-30):
                out.append(name)
    return out
