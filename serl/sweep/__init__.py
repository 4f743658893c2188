"""Sweeps: many runs of one recipe, by arms and seeds, and what they show together."""
