"""Evaluation of a text-to-SQL policy: candidates → metrics with intervals → tables."""
