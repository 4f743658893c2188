"""Wording of the prompt. The schema S' comes from `grounding`, rendered once and shared by all rollouts."""

from grounding.safety import neutralize
from serl.data.example import Example

SYSTEM = {
    "full": (
        "You are an expert in SQLite. Answer the question with one SQL query on the given database.\n"
        "You may think inside <think>...</think>. Then do one of two things:\n"
        "- <sql>SELECT ...</sql> runs a query; the database answers with its rows or its error message.\n"
        "- <solution>SELECT ...</solution> gives the final query and ends the conversation.\n"
        "Check values and intermediate results before you answer. You have {max_turns} turns in all, and "
        "the last one must be the solution. The solution returns exactly the columns that are asked for.\n"
        "For example, to the question \"How many singers are there?\" a whole answer is:\n"
        "<solution>SELECT count(*) FROM singer</solution>"
    ),
    # A model trained from scratch learns the protocol from its warm start; instructions are only cost.
    "brief": "SQL",
}


def messages(example: Example, schema: str, style: str, max_turns: int) -> list[dict[str, str]]:
    """System and user message of a question; `schema` is the rendered S'. The data's texts cannot forge a turn."""
    # str(): what is for the teacher only refuses to become text.
    evidence = f"\nEvidence: {neutralize(str(example.evidence))}" if example.evidence else ""
    user = f"{schema}{evidence}\nQuestion: {neutralize(str(example.question))}"
    return [{"role": "system", "content": SYSTEM[style].format(max_turns=max_turns)},
            {"role": "user", "content": user}]
