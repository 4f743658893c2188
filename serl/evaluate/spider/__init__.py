"""Spider's own view of a query: its clauses, their exact match, and the hardness that is counted from them."""
