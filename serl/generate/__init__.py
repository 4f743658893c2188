"""Generators: token ids in; sampled token ids, their log-probs and the stop reason out."""
