"""Text-to-SQL agents trained by reinforcement learning with execution hindsight."""

__version__ = "0.1.0"
