"""Asking a trained agent questions of one's own, without gold: `serl ask`, and what `serl serve` is built on."""
