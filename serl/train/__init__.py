"""Training: advantages, losses, scoring, engine, trainer, supervised warm start, checkpoints."""
