"""Execution hindsight: what the teacher may see, the teacher, and the token weights made from its gap."""
