"""Episodes with tools: the memory's answers, the guard of the order, tools that are not offered."""

from collections.abc import Iterator

import pytest

from serl.agent.dialects import Hermes, Tool
from serl.agent.observation import reminder
from serl.config import load_config
from serl.errors import InputError
from serl.sql.sandbox import Limits, Sandbox
from tests.dialogue import Table, a, environment, q, r, write_database

GOLD = "SELECT name FROM city WHERE people > 3 AND country = 'Peru'"
E, e, M, m = (f"<{name}_verify>{verdict}</{name}_verify>" for name in ("exec", "memory")
              for verdict in ("pass", "no_pass"))
BAD = "<tool_call>{}</tool_call>"
FIRST, QUERY, LOOK, ANSWER = ("first comes a query by exec_sql", "comes a query by exec_sql",
                              "comes a look at memory_retrieve", "comes the answer")


@pytest.fixture(scope="module")
def dialogue(tmp_path_factory) -> Iterator[Table]:
    path = write_database(tmp_path_factory.mktemp("dialogue"))
    with Sandbox(1, Limits(timeout_s=2, max_rows=1000)) as sandbox:
        yield Table(path, sandbox)


def body(turn) -> str:
    """An observation without its frame."""
    return turn.observation_text.removeprefix("<tool_response>\n").removesuffix("\n</tool_response>")


def test_a_look_into_the_memory_is_answered_with_the_earlier_turns(dialogue):
    look, = dialogue.play([r("SELECT name FROM city")]).turns
    assert body(look) == """\
1 earlier turn
turn 1: Which cities have over 3 people?
sql: SELECT name FROM city WHERE people > 3
select: city.name
from: city
where: city.people > 3
entities: city.people > 3
result: 3 rows; name; Lima; Cusco; Paris
not in this query, but in turn 1: city.people > 3
turns left: 4"""
    assert look.outcome is None and look.refused == ""


def test_the_prompt_tells_earlier_questions_and_no_sql(dialogue):
    trajectory = dialogue.play([])
    prompt = environment().token_bytes.join(trajectory.token_ids).decode()
    assert "\nEarlier questions:\n1. Which cities have over 3 people?\nQuestion: Only those in Peru." in prompt
    assert "WHERE" not in prompt


def test_the_memory_is_not_opened_before_somebody_looks(dialogue):
    env, opened = environment(), []
    episode = env.start([1, 2, 3], lambda: opened.append(1) or dialogue.past.memory({}))
    for text, times in ((q(GOLD), 0), (E + r(GOLD), 1), (r(GOLD), 1)):
        episode.act(env.tokenizer.encode(text, add_special_tokens=False), [0.0] * len(env.tokenizer.encode(
            text, add_special_tokens=False)))
        episode.observe(dialogue.sandbox.run(dialogue.path, GOLD) if text == q(GOLD) else None)
        assert len(opened) == times


@pytest.mark.parametrize(("tools", "action", "missing"), [
    (("exec_sql",), r(GOLD), "memory"), (("memory_retrieve",), q(GOLD), "exec_sql")])
def test_a_tool_that_is_not_offered_is_refused_and_costs_a_turn(dialogue, tools, action, missing):
    trajectory = dialogue.play([action, a(GOLD)], environment(tools))
    refused, _ = trajectory.turns
    assert body(refused) == f"malformed: there is no {missing} in this conversation\nturns left: 4"
    assert refused.outcome is None and trajectory.stop == "final" and trajectory.final_sql == GOLD


def test_instructions_tell_the_tools_that_are_offered_and_the_order():
    plain, both = Hermes(), Hermes(offered=(Tool.EXECUTE, Tool.MEMORY), ordered=True)
    assert [tool["function"]["name"] for tool in both.tools] == ["exec_sql", "memory_retrieve"]
    for text, told in ((plain.instructions("Go."), False), (both.instructions("Go."), True)):
        assert ("memory_retrieve" in text, "Keep to this order" in text, "<memory_verify>" in text) == (told,) * 3
    alone = Hermes(offered=(Tool.MEMORY,))
    assert "exec" not in alone.instructions("Go.") and '"name": "memory_retrieve"' in alone.tools_in_words()


# The order: what each action is told, "" for nothing, None where it ends the conversation.
ORDERS = {
    "in order": ([q(GOLD), E + r(GOLD), M + a(GOLD)], ["", "", None]),
    "corrected": ([q(GOLD), e + q(GOLD), E + r(GOLD), m + q(GOLD), E + a(GOLD)], ["", "", "", "", None]),
    "a look first": ([r(GOLD), a(GOLD)], [FIRST, None]),
    "no verdict": ([q(GOLD), r(GOLD), a(GOLD)], ["", "first say exec_verify of the last answer", None]),
    "a query behind a pass": ([q(GOLD), E + q(GOLD), a(GOLD)], ["", f"after exec_verify pass {LOOK}", None]),
    "a look behind no pass": ([q(GOLD), e + r(GOLD), a(GOLD)], ["", f"after exec_verify no_pass {QUERY}", None]),
    "a query behind the memory's pass": ([q(GOLD), E + r(GOLD), M + q(GOLD), a(GOLD)],
                                         ["", "", f"after memory_verify pass {ANSWER}", None]),
    "a look behind the memory's no pass": ([q(GOLD), E + r(GOLD), m + r(GOLD), a(GOLD)],
                                           ["", "", f"after memory_verify no_pass {QUERY}", None]),
    "both verdicts": ([q(GOLD), E + e + r(GOLD), a(GOLD)],
                      ["", "first say exec_verify of the last answer, once", None]),
    "malformed is no matter of order": ([BAD, q(GOLD), E + BAD, r(GOLD), M + a(GOLD)],
                                        ["malformed", "", "malformed", "", None]),
}


@pytest.mark.parametrize(("actions", "told"), ORDERS.values(), ids=ORDERS)
def test_remind_carries_everything_out_and_states_the_rule(dialogue, actions, told):
    trajectory = dialogue.play(actions, environment(order="remind"))
    assert trajectory.stop == "final" and not any(turn.refused for turn in trajectory.turns)
    for turn, rule in zip(trajectory.turns, told, strict=True):
        if rule is None:
            assert turn.observation is None
            continue
        *answer, note, left = body(turn).split("\n")
        assert left.startswith("turns left: ") or left == reminder(1, "", "answer", False)
        assert ("out of order: " in note) == (rule not in ("", "malformed")) and rule in note
        assert rule == "malformed" or answer, "the tool has answered all the same"


def test_strict_refuses_what_is_out_of_order(dialogue):
    env = environment(order="strict")
    trajectory = dialogue.play([a(GOLD), r(GOLD), q(GOLD), a(GOLD), E + r(GOLD)], env)
    early, look, query, hasty, second = trajectory.turns
    for turn, rule in ((early, FIRST), (look, FIRST), (hasty, "first say exec_verify")):
        assert turn.refused.startswith(f"out of order: {rule}") and turn.outcome is None
        assert body(turn).startswith(turn.refused + "\n")
    assert query.refused == second.refused == "" and query.outcome.row_count == 2
    assert trajectory.stop == "max_turns" and trajectory.final_sql is None


def test_a_verdict_in_a_refused_action_was_said(dialogue):
    trajectory = dialogue.play([q(GOLD), E + a(GOLD), r(GOLD), M + a(GOLD)], environment(order="strict"))
    assert [bool(turn.refused) for turn in trajectory.turns] == [False, True, False, False]
    assert trajectory.final_sql == GOLD


def test_the_last_action_may_be_the_answer(dialogue):
    env = environment(order="strict", max_turns=2)
    assert dialogue.play([q(GOLD), a(GOLD)], env).final_sql == GOLD
    assert dialogue.play([a(GOLD), a(GOLD)], env).final_sql == GOLD
    refused = dialogue.play([q(GOLD), q(GOLD)], env)
    assert refused.turns[1].refused and refused.stop == "max_turns" and refused.final_sql is None


def test_without_a_memory_the_answer_follows_the_verdict_on_the_execution(dialogue):
    env = environment(("exec_sql",), order="strict")
    assert dialogue.play([q(GOLD), E + a(GOLD)], env).final_sql == GOLD


@pytest.mark.parametrize(("overrides", "message"), [
    ({"agent.tools": "[memory_retrieve]"}, "agent.tools is of no use in agent.dialect xml"),
    ({"agent.order": "strict"}, "agent.order is of no use in agent.dialect xml"),
    ({"agent.dialect": "hermes", "agent.tools": "[ls]"}, "agent.tools has 'ls'; choose from exec_sql, memory_retrieve"),
    ({"agent.dialect": "hermes", "agent.tools": "[]"}, "name one tool or more, each once"),
    ({"agent.dialect": "hermes", "agent.prior": "mixed"}, "add memory_retrieve to agent.tools"),
    ({"agent.dialect": "hermes", "agent.tools": "[exec_sql, memory_retrieve]"}, "data.format bird has no dialogues"),
    ({"agent.dialect": "hermes", "agent.tools": "[memory_retrieve]", "data.format": "sparc", "agent.order": "remind"},
     "agent.order remind begins with exec_sql"),
    ({"agent.dialect": "hermes", "agent.tools": "[memory_retrieve]", "data.format": "sparc", "agent.prior": "predicted",
      "train.refill": "1"}, "train.refill replaces single questions"),
    ({"train.credit": "step"}, "no term of reward serl is about single actions"),
])
def test_options_that_do_not_go_together_are_refused(overrides, message):
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        load_config(None, list(overrides.items()))
