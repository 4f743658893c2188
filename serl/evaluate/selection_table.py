"""The block `selection` of a summary as text: a table a split, a row a selector, a column an N."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from serl.evaluate.table import MISSING, cell_text
from serl.select import ORACLE

TITLE = "Selection, % right (95% interval); oracle@N needs gold and is an upper bound"


def selection_table(selection: Mapping[str, Any]) -> str:
    """All splits, one under the other, and what it cost; without a trailing newline."""
    ns, splits = selection["ns"], {name: block for name, block in selection["splits"].items() if block}
    lines = [TITLE]
    for split, block in splits.items():
        lines += ["", f"{split} ({block['questions']} questions): greedy {cell_text(block['greedy']['value'])}",
                  *_aligned([["", *(f"N={n}" for n in ns), f"regret@{ns[-1]}", f"gap closed@{ns[-1]}",
                              f"over vote@{ns[-1]}"],
                             *([name, *(cell_text(block["at"][str(n)][name]["value"]) for n in ns),
                                *_gaps(block["at"][str(ns[-1])][name])] for name in _names(block, ns)),
                             ["tokens", *(f"{block['tokens'][str(n)]:.0f}" for n in ns)],
                             *_seconds(selection, block, ns)])]
        if "adaptive" in block:
            saved = block["adaptive"][str(ns[-1])]
            lines.append(f"adaptive takes {saved['samples']:.1f} of {ns[-1]} samples and saves "
                         f"{100 * saved['saved']:.0f}% of the tokens (confidence {saved['confidence']:g})")
    return "\n".join([*lines, *_cost(selection)])


def _names(block: Mapping[str, Any], ns: list[int]) -> list[str]:
    names = list(block["at"][str(ns[-1])])
    return sorted(names, key=lambda name: name == ORACLE)


def _gaps(row: Mapping[str, Any]) -> list[str]:
    """Regret in points, the share of the gap in percent, points over the vote."""
    return [cell_text(row.get("regret")), _signed(row.get("closed")), _signed(row.get("over_vote"))]


def _signed(estimate: Mapping[str, float] | None) -> str:
    """What may be below 0, in percent; nothing where it has no interval."""
    if estimate is None or estimate["low"] is None:
        return MISSING
    value, low, high = (100 * estimate[key] for key in ("value", "low", "high"))
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"


def _seconds(selection: Mapping[str, Any], block: Mapping[str, Any], ns: list[int]) -> list[list[str]]:
    """Seconds of sampling, which are measured of all samples and the greedy answer, by the share of the tokens."""
    if "seconds" not in selection:
        return []
    total = block["greedy"]["tokens"] + block["tokens"][str(ns[-1])]
    a_token = selection["seconds"]["sampling"] / total if total else 0.0
    return [["~ seconds", *(f"{a_token * block['tokens'][str(n)]:.3f}" for n in ns)]]


def _cost(selection: Mapping[str, Any]) -> list[str]:
    if (seconds := selection.get("seconds")) is None:
        return []
    facts = "".join(f", {name} {value:.3f}" for name, value in seconds["facts"].items())
    choice = ", ".join(f"{name} {1000 * value:.2f}" for name, value in seconds["choice"].items()) or MISSING
    return ["", f"seconds a question: sampling {seconds['sampling']:.3f}, the greedy answer included (of smaller N "
                f"above by their tokens){facts}; choosing among {selection['ns'][-1]}, ms: {choice}"]


def _aligned(lines: list[list[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines if len(line) > column) for column in range(len(lines[0]))]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
