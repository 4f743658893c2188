"""What every picture needs: a figure without a display, and its PNG written whole."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from serl.io import atomic_write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches. It has a canvas of its own: no display, and pyplot's state stays untouched."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_png(figure: Figure, target: Path) -> Path:
    """Write the figure as PNG and return its path."""
    png = BytesIO()
    figure.savefig(png, format="png", dpi=150)
    atomic_write_bytes(target, png.getvalue())
    return target
