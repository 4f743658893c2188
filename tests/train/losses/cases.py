"""Random ragged rows for the losses: nested lists for the slow references, flat float64 tensors for the code."""

import random
from dataclasses import dataclass

import torch

NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Row:
    """One trajectory's sampled tokens; `garbage` context tokens stand before and between them in the flat tensors."""

    logp: list[float]
    old: list[float]
    advantage: list[float]  # Â, a token
    ref: list[float]
    sampler: list[float]


def random_rows(seed: int, rows: int = 4, spread: float = 0.3, even: bool = False) -> list[Row]:
    """`spread` is how far ln r goes; `even`: one Â for a whole row, as without token weights."""
    draw = random.Random(seed)
    made = []
    for _ in range(rows):
        size = draw.randint(1, 5)
        old = [draw.uniform(-3, -0.1) for _ in range(size)]
        base = draw.gauss(0, 1)
        weights = [1.0 if even else draw.uniform(0.8, 1.2) for _ in range(size)]
        made.append(Row(logp=[value + draw.gauss(0, spread) for value in old], old=old,
                        advantage=[base * weight for weight in weights],
                        ref=[value + draw.gauss(0, 0.5) for value in old],
                        sampler=[value + draw.gauss(0, 0.5) for value in old]))
    return made


@dataclass(frozen=True)
class Flat:
    """The rows behind one another, with context tokens whose values must not matter."""

    logp: torch.Tensor
    old: torch.Tensor
    advantage: torch.Tensor
    mask: torch.Tensor
    row: torch.Tensor
    ref: torch.Tensor
    sampler: torch.Tensor

    @property
    def tokens(self) -> tuple[torch.Tensor, ...]:
        return self.logp, self.old, self.advantage, self.mask


def flatten(rows: list[Row], garbage: tuple[float, ...] = (NAN, INF, -INF)) -> Flat:
    columns: dict[str, list] = {name: [] for name in ("logp", "old", "advantage", "ref", "sampler", "mask", "row")}
    for number, row in enumerate(rows):
        for place in range(len(row.logp)):
            for bad in garbage[place % (len(garbage) + 1):][:1] if garbage else ():
                for name in ("old", "advantage", "ref", "sampler"):
                    columns[name].append(bad)
                columns["logp"].append(-1.0)
                columns["mask"].append(False)
                columns["row"].append(number)
            for name in ("logp", "old", "advantage", "ref", "sampler"):
                columns[name].append(getattr(row, name)[place])
            columns["mask"].append(True)
            columns["row"].append(number)
    made = {name: torch.tensor(values, dtype={"mask": torch.bool, "row": torch.long}.get(name, torch.float64))
            for name, values in columns.items()}
    return Flat(**{**made, "logp": made["logp"].requires_grad_()})


def gradient(loss: torch.Tensor, flat: Flat) -> torch.Tensor:
    (grad,) = torch.autograd.grad(loss, flat.logp, retain_graph=True)
    return grad


def by_row(values: torch.Tensor, flat: Flat) -> list[list[float]]:
    """Values of the sampled tokens as nested lists."""
    return [values[flat.mask & (flat.row == number)].tolist() for number in range(int(flat.row.max()) + 1)]


def differences(function, rows: list[list[float]], step: float = 1e-6) -> list[list[float]]:
    """Central finite differences of `function(rows)` at every entry."""
    result = []
    for number, row in enumerate(rows):
        result.append([])
        for place in range(len(row)):
            at = []
            for sign in (1, -1):
                moved = [list(other) for other in rows]
                moved[number][place] += sign * step
                at.append(function(moved))
            result[-1].append((at[0] - at[1]) / (2 * step))
    return result
