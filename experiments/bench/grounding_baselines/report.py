"""From what the processes measured to figures a value and a question, and to tables for people."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from grounding.evaluate.value_task import CUTS, Item, recall


def recall_of(items: Sequence[Item], found: Sequence, places: Sequence[int]) -> dict[str, dict[str, dict]]:
    """Recall by kind and cut on some of the items; cuts are strings, as JSON has them."""
    recalls = recall([items[place] for place in places], [found[place] for place in places])
    return {kind: {str(cut): asdict(each) for cut, each in by_cut.items()} for kind, by_cut in recalls.items()}


def build_rates(built: dict[str, float]) -> dict[str, float]:
    """Speed and size by value. The store of vectors serves all databases together, and questions too."""
    values = max(1, built["values"])
    return {"values_per_cpu_s": values / built["cpu_s"],
            "values_per_cpu_s_without_encoder": values / (built["cpu_s"] - built["encoding_cpu_s"]),
            "bytes_per_value": (built["bytes"] - built["vectors_bytes"]) / values,
            "vectors_bytes_per_value": built["vectors_bytes"] / values}


def query_times(rounds: Sequence[dict]) -> dict[str, Any]:
    """Percentiles over questions of each one's median over rounds, and what a process cost."""

    def percentiles(field: str) -> dict[str, float]:
        median_Q = np.median([[query[field] for query in each["queries"]] for each in rounds], axis=0)
        return {f"p{percent}": float(1000 * np.percentile(median_Q, percent)) for percent in (50, 95)}

    return {"wall_ms": percentiles("wall_s"), "cpu_ms": percentiles("cpu_s"), "encoding_ms": percentiles("encoding_s"),
            "load_ms": 1000 * statistics.median(seconds for each in rounds for seconds in each["load_s"]),
            "start_s": statistics.median(each["start_s"] for each in rounds),
            "peak_mib": statistics.median(each["peak_mib"] for each in rounds)}


def tables(report: dict[str, Any]) -> str:
    """The figures for a human: recall of each group, recall at 10 by kind, costs."""
    parts = []
    for title, size in report["groups"].items():
        head = f"recall in %, {title}: " + ", ".join(f"{count} {what}" for what, count in size.items())
        rows = [[method["title"], *(in_percent(cell) for cell in method["recall"][title]["all"].values())]
                for method in report["methods"].values()]
        parts.append(f"{head}\n{aligned([['', *(f'@{cut}' for cut in CUTS)], *rows])}")
        by_kind = next(iter(report["methods"].values()))["recall"][title]
        kinds = {kind: by_cut["10"]["targets"] for kind, by_cut in by_kind.items() if kind != "all"}
        rows = [[method["title"], *(in_percent(method["recall"][title][kind]["10"]) for kind in kinds)]
                for method in report["methods"].values()]
        header = ["", *(f"{kind} ({count})" for kind, count in kinds.items())]
        parts.append(f"recall@10 by kind, {title}\n{aligned([header, *rows])}")
    header = ["", "values", "values/s", "w/o encoder", "bytes/value", "+ vectors", "build MiB", "query MiB", "start s",
              "load ms", "p50 ms", "p95 ms", "encoding p50", "p95", "CPU p50 ms", "p95"]
    rows = [[method["title"], *cost_row(method["build"], method["query"])] for method in report["methods"].values()]
    return "\n\n".join([*parts, f"cost\n{aligned([header, *rows])}"])


def in_percent(cell: dict[str, float]) -> str:
    return f"{100 * cell['value']:.1f} ({100 * cell['low']:.0f}–{100 * cell['high']:.0f})"


def cost_row(build: dict[str, float], query: dict[str, Any]) -> list[str]:
    times = [f"{query[what][percentile]:.1f}" for what in ("wall_ms", "encoding_ms", "cpu_ms")
             for percentile in ("p50", "p95")]
    return [str(build["values"]), f"{build['values_per_cpu_s']:.0f}",
            f"{build['values_per_cpu_s_without_encoder']:.0f}", f"{build['bytes_per_value']:.0f}",
            f"{build['vectors_bytes_per_value']:.0f}", f"{build['peak_mib']:.0f}", f"{query['peak_mib']:.0f}",
            f"{query['start_s']:.1f}", f"{query['load_ms']:.1f}", *times]


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns under each other, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) if place == 0 else cell.rjust(width)
                               for place, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows)
