"""How good grounding is: recall of values, tables and columns against gold."""
