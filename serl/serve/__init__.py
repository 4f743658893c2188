"""A trained agent behind an OpenAI-compatible chat endpoint: `serl serve`."""
