"""Episodes in the fence and hermes dialects: tool answers, recall without a memory, one turn, tokens of events."""

import pytest

from serl.agent.dialects import Kind, Sql, Think, Verify
from serl.agent.env import Environment
from serl.config import AgentConfig, load_config
from serl.errors import InputError
from tests.agent.templates import MODELS, R1_MODEL
from tests.agent.test_env import EXAMPLE, ROWS, act

TOKENIZER = MODELS["qwen2.5"].tokenizer


def environment(tokenizer=TOKENIZER, **options) -> Environment:
    return Environment.build(tokenizer, AgentConfig(**{"max_turns": 3, "max_new_tokens": 64, **options}), 2048)


def start(env: Environment):
    return env.start(env.prompt_ids(EXAMPLE, "city(name text)"))


def said(episode, span) -> str:
    return episode.env.token_bytes.join(episode.trajectory.token_ids[slice(*span)]).decode()


def masked(episode) -> list[str]:
    """The runs of tokens that the action mask covers."""
    trajectory, runs, before = episode.trajectory, [], 0
    for index, on in zip(trajectory.token_ids, trajectory.action_mask):
        if on:
            runs[len(runs) if not before else -1:] = [(runs[-1] if before else b"") + episode.env.token_bytes.of(index)]
        before = on
    return [run.decode() for run in runs]


def test_a_tool_call_is_answered_in_the_templates_own_frame():
    episode = start(environment(dialect="hermes"))
    dialect = episode.env.dialect
    assert act(episode, "<think>hm</think>" + dialect.write(Kind.SQL, 'SELECT "name"\nFROM city')) == (
        'SELECT "name"\nFROM city')
    episode.observe(ROWS)
    assert act(episode, "<exec_verify>pass</exec_verify><answer_sql>SELECT 'é'</answer_sql><|im_end|>") == "SELECT 'é'"
    episode.observe(ROWS)
    query, answer = episode.trajectory.turns
    assert query.observation_text == "2 rows\nname | people\nLima | 10\nCusco | NULL\nturns left: 2"
    assert said(episode, query.observation) == (
        f"<|im_end|>\n<|im_start|>user\n<tool_response>\n{query.observation_text}\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n")
    assert episode.trajectory.stop == "final" and episode.trajectory.final_sql == "SELECT 'é'"
    assert "SELECT \\\"name\\\"\\nFROM city" in said(episode, query.sql)
    tool, spelled, final = masked(episode)
    assert "exec_sql" in tool and "SELECT" not in tool and "FROM city" in spelled and "SELECT 'é'" in final
    assert all("<" not in run and "arguments" not in run for run in (tool, spelled, final))
    assert [type(event) for event, _ in query.events] == [Think, Sql]
    assert said(episode, query.events[0][1]) in ("hm", ">hm", "hm<", ">hm<")
    assert isinstance(answer.events[0][0], Verify) and "pass" in said(episode, answer.events[0][1])


def test_tools_are_told_in_the_system_message_where_the_template_does_not_know_them():
    tokenizer = MODELS["llama3"].tokenizer
    episode = start(environment(tokenizer, dialect="hermes"))
    prompt = said(episode, (0, len(episode.trajectory)))
    assert prompt.count('"name": "exec_sql"') == 2 and "name and parameters" not in prompt
    act(episode, episode.env.dialect.write(Kind.SQL, "SELECT 1"))
    episode.observe(ROWS)
    assert episode.trajectory.turns[0].observation_text.startswith("<tool_response>\n2 rows\n")


def test_a_look_into_the_memory_is_malformed_where_there_is_none():
    episode = start(environment(dialect="hermes"))
    assert act(episode, episode.env.dialect.write(Kind.RECALL, "SELECT 1")) is None
    episode.observe(None)
    (turn,) = episode.trajectory.turns
    assert turn.parsed.kind is Kind.RECALL and turn.sql is None
    assert turn.observation_text == "malformed: there is no memory in this conversation\nturns left: 2"
    assert [run.strip('"') for run in masked(episode)][-1].startswith("SELECT 1")


def test_the_fence_dialect_has_one_turn_and_no_frame_for_answers():
    episode = start(environment(dialect="fence", max_turns=1))
    assert act(episode, "<think>hm</think><answer>\n```sql\nSELECT 1\n```\n</answer>") == "SELECT 1"
    episode.observe(ROWS)
    assert episode.trajectory.stop == "final" and episode.trajectory.turns[0].observation is None
    assert "SELECT 1" in "".join(masked(episode))
    lost = start(environment(dialect="fence", max_turns=1))
    act(lost, "SELECT 1")
    lost.observe(None)
    assert lost.trajectory.stop == "max_turns"


def test_a_forced_answer_follows_a_malformed_one_in_the_fence_dialect_too():
    episode = start(environment(dialect="fence", max_turns=1, force_final=True))
    act(episode, "SELECT 1")
    episode.observe(None)
    assert episode.trajectory.turns[0].observation_text == (
        "malformed: expected < answer>...< /answer> with a ` ` `sql block in it\nno turns left: give the answer now")


def test_a_prompt_that_opens_the_thinking():
    episode = start(environment(R1_MODEL.tokenizer, dialect="fence", max_turns=1))
    assert said(episode, (0, len(episode.trajectory))).endswith("<think>\n")
    assert act(episode, "<answer>```sql\nSELECT 0\n```</answer>?</think><answer>```sql\nSELECT 1\n```</answer>") == (
        "SELECT 1")
    episode.observe(ROWS)
    assert episode.trajectory.final_sql == "SELECT 1"


@pytest.mark.parametrize(("overrides", "message"), [
    ([("agent.dialect", "fence")], "agent.max_turns is 3; agent.dialect fence has no queries, so set it to 1"),
    ([("agent.dialect", "json")], "agent.dialect is 'json'; choose one of xml, fence, hermes"),
    ([("agent.prefill", "<sql>")], "agent.prefill is '<sql>'; it may open thinking"),
    ([("agent.observation_cells", "0")], "agent.observation_cells is 0; it must be at least 1"),
])
def test_options_that_do_not_go_together_are_refused(overrides, message):
    with pytest.raises(InputError, match=message):
        load_config(None, overrides)


@pytest.mark.parametrize("prefill", ["", "<think>\\n", "<think>\\n\\n</think>\\n\\n"])
def test_a_message_may_begin_with_thinking(prefill):
    assert load_config(None, [("agent.prefill", f'"{prefill}"')]).agent.prefill == prefill.replace("\\n", "\n")


def test_full_prompts_tell_how_to_act_in_the_dialect():
    for dialect, tag in (("xml", "<solution>"), ("fence", "```sql"), ("hermes", "<answer_sql>")):
        env = environment(dialect=dialect, max_turns=1)
        prompt = env.token_bytes.join(env.prompt_ids(EXAMPLE, "city(name text)")).decode()
        assert tag in prompt and "You are an expert in SQLite." in prompt
        example = prompt[prompt.index("a whole answer is:\n") + len("a whole answer is:\n"):prompt.index("<|im_end|>")]
        assert env.dialect.parse(example.encode()).sql == "SELECT count(*) FROM singer"
