"""Wording of the prompt. The schema S' comes from `grounding`, rendered once and shared by all rollouts."""

from grounding.safety import neutralize
from serl.agent.dialects import DIALECTS
from serl.config import AgentConfig
from serl.data.example import Example

# A model trained from scratch learns the protocol from its warm start; instructions are only cost.
BRIEF = "SQL"


def messages(example: Example, schema: str, config: AgentConfig) -> list[dict[str, str]]:
    """System and user message of a question; `schema` is the rendered S'. The data's texts cannot forge a turn."""
    # str(): what is for the teacher only refuses to become text.
    evidence = f"\nEvidence: {neutralize(str(example.evidence))}" if example.evidence else ""
    user = f"{schema}{evidence}\nQuestion: {neutralize(str(example.question))}"
    return [{"role": "system", "content": system_text(config)}, {"role": "user", "content": user}]


def system_text(config: AgentConfig) -> str:
    """What the system message says in the wording that `agent.prompt` asks for."""
    if config.prompt == "brief":
        return BRIEF
    dialect = DIALECTS[config.dialect]
    if config.force_final:
        turns = (f"You have {config.max_turns} turns, and if none of them gives the {dialect.solution}, one more that "
                 "must give it.")
    else:
        turns = f"You have {config.max_turns} turns in all, and the last one must be the {dialect.solution}."
    return dialect.instructions(turns)
