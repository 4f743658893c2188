"""Points of the learning curve during training (`eval.every`), and which of them was the best so far.

The best is the checkpoint whose greedy answers to the probe's questions, seen and unseen databases together, are most
often right; of equal ones the earliest, which has moved least. A probe of other questions than the best's was (a
resumed run may change `eval.probe`) cannot be compared: it begins anew.
"""

from dataclasses import asdict, dataclass
from typing import Any

from serl.evaluate.stage import evaluate_stage
from serl.workbench import Workbench


@dataclass(frozen=True)
class Best:
    """The checkpoint after `step` steps, whose greedy answers to `questions` questions are right at this rate."""

    step: int
    accuracy: float
    questions: int

    @classmethod
    def of(cls, step: int, summary: dict[str, Any]) -> "Best | None":
        """What a probe's summary says of a step; None if no question could be judged."""
        greedy = summary["splits"]["all"].get("greedy")
        return greedy and cls(step, greedy["value"], summary["questions"])

    def beats(self, other: "Best | None") -> bool:
        return other is None or other.questions != self.questions or self.accuracy > other.accuracy

    state_dict = asdict


def probe(bench: Workbench) -> dict[str, Any]:
    """The summary of greedy answers to a fixed sample of the evaluation split; `eval.probe_n` adds samples."""
    options = bench.config.eval
    return evaluate_stage(bench, "probe", None, options.probe_n, options.probe)


def probe_metrics(summary: dict[str, Any]) -> dict[str, float]:
    """`eval/seen` and `eval/unseen`: greedy accuracy; with samples also `eval/seen_mean@n` and so on."""
    return {f"eval/{split}" + (f"_{name}" if name != "greedy" else ""): estimate["value"]
            for split, metrics in summary["splits"].items() if split != "all" for name, estimate in metrics.items()}
