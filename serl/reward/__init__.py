"""Rewards of a finished trajectory: terms, and the panel that adds them."""
