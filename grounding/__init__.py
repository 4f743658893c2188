"""Grounding: from a question and its database to the part of the schema, and the stored values, that it needs.

    grounder = Grounder(Path("cache"))
    grounded = grounder.ground(Request("Who won in Monaco?", Path("formula_1.sqlite")))
    prompt = render_schema(grounded, style="compact")

The names below load their modules when first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib

_HOME = {
    "Chat": "reasoning",
    "Column": "schema",
    "ColumnSamples": "grounded",
    "Database": "schema",
    "Endpoint": "reasoning",
    "ForeignKey": "schema",
    "GroundedSchema": "grounded",
    "Grounder": "grounder",
    "GroundingConfig": "grounded",
    "InputError": "errors",
    "LinkedColumn": "grounded",
    "LinkedTable": "grounded",
    "Links": "grounded",
    "Reasoner": "reasoning",
    "Request": "grounded",
    "Table": "schema",
    "ValueMatch": "grounded",
    "render_schema": "render",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'grounding' has no attribute {name!r}")
    return getattr(importlib.import_module(f"grounding.{_HOME[name]}"), name)
