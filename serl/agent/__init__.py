"""The text-to-SQL agent: dialects, prompts, chat framing, trajectories, environment and rollouts."""
