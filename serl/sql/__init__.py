"""Running a model's SQL safely and judging its result."""
