"""Wording of the prompt. The schema S' comes from `grounding`, rendered once and shared by all rollouts."""

from collections.abc import Sequence

from grounding.safety import neutralize
from serl.agent.dialects import Dialect, dialect_of
from serl.config import AgentConfig
from serl.data.example import Example

# A model trained from scratch learns the protocol from its warm start; instructions are only cost.
BRIEF = "SQL"


def messages(example: Example, schema: str, config: AgentConfig, earlier: Sequence[Example] = ()
             ) -> list[dict[str, str]]:
    """System and user message of a question; `schema` is the rendered S'. The data's texts cannot forge a turn.

    `earlier`: the turns before it, of which the questions are told. Their SQL is what the memory tells, so that a
    prompt is the same whatever the policy answered them with.
    """
    # str(): what is for the teacher only refuses to become text.
    evidence = f"\nEvidence: {neutralize(str(example.evidence))}" if example.evidence else ""
    before = "".join(f"\n{number}. {neutralize(str(each.question))}" for number, each in enumerate(earlier, start=1))
    told = f"\nEarlier questions:{before}" if before else ""
    user = f"{schema}{evidence}{told}\nQuestion: {neutralize(str(example.question))}"
    return [{"role": "system", "content": system_text(config)}, {"role": "user", "content": user}]


def system_text(config: AgentConfig) -> str:
    """What the system message says in the wording that `agent.prompt` asks for."""
    if config.prompt == "brief":
        return BRIEF
    dialect = spoken(config)
    if config.force_final:
        turns = (f"You have {config.max_turns} turns, and if none of them gives the {dialect.solution}, one more that "
                 "must give it.")
    else:
        turns = f"You have {config.max_turns} turns in all, and the last one must be the {dialect.solution}."
    return dialect.instructions(turns)


def spoken(config: AgentConfig) -> Dialect:
    """The dialect that a run's policy acts in."""
    return dialect_of(config.dialect, config.tools, config.order != "off")
