"""λ over a run: how strongly the weights act after each optimizer step.

    constant   λ_0
    linear     λ_0 · max(0, 1 − u/K),   K = decay_updates                     0 from update K on
    fraction   the same with K = decay_fraction of the run's updates

With a warm-up of W updates λ first rises from 0 to λ_0, and a decay begins at its end: λ is λ_0 at u = W and 0 from
u = W + K on (`fraction`: K counts from the start of the run, warm-up included).
"""

from serl.config import HindsightConfig


def lambda_at(update: int, options: HindsightConfig, total_updates: int) -> float:
    """λ after `update` optimizer steps of a run of `total_updates`."""
    warmup = options.warmup_updates
    if update < warmup:
        return options.lambda0 * update / warmup
    since = update - warmup
    match options.schedule:
        case "constant":
            return options.lambda0
        case "linear":
            return options.lambda0 * max(0.0, 1.0 - since / options.decay_updates)
        case "fraction":
            decay = options.decay_fraction * total_updates - warmup
            return options.lambda0 * max(0.0, 1.0 - since / decay) if decay > 0.0 else 0.0
        case other:
            raise ValueError(f"no such schedule: {other!r}")
