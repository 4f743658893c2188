"""The text-to-SQL agent: grammar, prompts, chat framing, trajectories, environment and rollouts."""
