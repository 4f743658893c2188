"""Invented databases: random tables and columns, each with names of its own.

A model that has seen few databases learns their names by heart. Among many, each with other names, it can only do
well by reading the schema that it is shown and copying from it.
"""

from __future__ import annotations

from serl.data.minibird.invent.database import invent

__all__ = ["invent"]
