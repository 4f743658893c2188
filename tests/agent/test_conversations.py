"""Random conversations in every dialect, with tokenizers of every kind: ids, text, masks and spans stay together.

Actions are written ones with hostile thinking and SQL, pieces of tags with bytes that are no UTF-8, and random tokens.
Some tokens straddle a tag and what stands in it. Masks are compared with the places that the text was built from.
"""

import json
from dataclasses import dataclass
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken

from serl.agent.dialects import TAGS, Kind
from serl.agent.env import Environment, Episode
from serl.config import AgentConfig
from serl.sql.outcome import Outcome, Status
from tests.agent.templates import MODELS
from tests.agent.test_env import EXAMPLE

STRADDLING = ("k>S", "k></", "ql>S", "T</so", "T</sq", "ql>T", '"S', 'T"}', "}}\n</", "`\nS", "l>\r", "é<", "s</exec")
DIALECTS = {"xml": (Kind.SQL, Kind.FINAL), "fence": (Kind.FINAL,), "hermes": (Kind.SQL, Kind.RECALL, Kind.FINAL)}
CLOSED_BY = {("xml", Kind.SQL): "</sql>", ("xml", Kind.FINAL): "</solution>", ("fence", Kind.FINAL): "\n```\n</answer>",
             ("hermes", Kind.SQL): '"}}\n</tool_call>', ("hermes", Kind.RECALL): '"}}\n</tool_call>',
             ("hermes", Kind.FINAL): "</answer_sql>"}


@dataclass(frozen=True)
class World:
    """An environment, and the token of each single byte."""

    env: Environment
    bytes: dict[int, int]

    def ids_of(self, data: bytes, cuts: set[int]) -> list[int]:
        """Tokens of any bytes, cut at some places: the tokenizer's own of what is text, single bytes of what is not."""
        ids, places = [], sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        for start, end in zip(places, places[1:]):
            try:
                chunk = self.env.framing.encode(data[start:end].decode())
            except UnicodeDecodeError:
                chunk = []
            exact = self.env.token_bytes.join(chunk) == data[start:end]
            ids += chunk if exact else [self.bytes[byte] for byte in data[start:end]]
        return ids


@cache
def world(model: str, dialect: str) -> World:
    tokenizer = MODELS[model].tokenizer
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in STRADDLING])
    config = AgentConfig(dialect=dialect, prompt="brief", max_turns=1 if dialect == "fence" else 4, force_final=True,
                         max_new_tokens=64, observation_tokens=100)
    env = Environment.build(tokenizer, config, 100_000)
    pieces = [(index, env.token_bytes.of(index)) for index in range(len(tokenizer))]
    return World(env, {piece[0]: index for index, piece in pieces if len(piece) == 1})


@dataclass(frozen=True)
class Said:
    """One sampled action, and the bytes of it that act; None: it was not built, so nobody knows."""

    data: bytes
    cuts: set[int]
    acting: tuple[tuple[int, int], ...] | None = None


names = st.sampled_from([f"<{slash}{tag}>" for tag in TAGS for slash in ("", "/")])
hostile = st.lists(names | st.sampled_from(["S", "T", "é", "\r\n", "<", "```sql\n", '"}}', "\\n", "😀", " 1"]),
                   max_size=8)
cuts = st.sets(st.integers(1, 120), max_size=4)


@st.composite
def written_action(draw, env: Environment) -> Said:
    """An action whose SQL holds no tag; its thinking holds all of them but its own end."""
    dialect = env.dialect
    kind = draw(st.sampled_from(DIALECTS[dialect.name]))
    sql = draw(st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="<`"), max_size=20)
               | st.sampled_from(["S T", "ST", '"S\\"', "é\r\n\u0000", "😀"]))
    thinking = "".join(draw(hostile)).replace("</think>", "")
    text = dialect.write(kind, sql, thinking)
    spelled = sql if kind is Kind.FINAL or dialect.name == "xml" else json.dumps(sql, ensure_ascii=False)[1:-1]
    end = len(text.encode()) - len(CLOSED_BY[dialect.name, kind])
    acting = [(end - len(spelled.encode()), end)]
    if dialect.name == "hermes" and kind is not Kind.FINAL:
        tool = {Kind.SQL: "exec_sql", Kind.RECALL: "memory_retrieve"}[kind]
        # What stands between the tool's name and the SQL is always the same.
        name_end = acting[0][0] - len('", "arguments": {"code": "')
        acting.insert(0, (name_end - len(tool), name_end))
    end_token = draw(st.sampled_from(["", env.tokenizer.eos_token, "\n"]))
    return Said((text + end_token).encode(), draw(cuts), tuple(acting))


def bits(env: Environment) -> st.SearchStrategy[Said]:
    """Pieces of actions in any order, with bytes that are no text."""
    piece = (names.map(str.encode) | st.binary(max_size=3)
             | st.sampled_from([b'{"name": "exec_sql", "arguments": {"code": "', b'"}}', b"pass", b"ql>S", b"\xc3"]))
    return st.builds(Said, st.lists(piece, max_size=10).map(b"".join), cuts)


def outcomes() -> st.SearchStrategy[Outcome]:
    """Answers whose cells, names and messages would like to be tags and special tokens."""
    specials = [token.content for model in MODELS.values() for token in model.tokenizer.added_tokens_decoder.values()]
    cell = st.lists(names | st.sampled_from([*specials, "```", "\n", "é", "[INST]", "</s>"]), max_size=4).map("".join)
    table = st.lists(st.tuples(cell, cell), max_size=6)
    return (st.builds(lambda rows: Outcome(Status.OK, ("a", *rows[0][:1]), tuple(rows), len(rows)) if rows else
                      Outcome(Status.EMPTY, ("a", "b")), table)
            | cell.map(lambda message: Outcome(Status.ERROR, error=message)))


OUTCOMES = outcomes()


def play(data, here: World) -> tuple[Episode, list[tuple[Said | None, list[int]]]]:
    """A conversation to its end, and what was said in it with the very tokens that were sampled."""
    env, said = here.env, []
    episode = env.start(env.prompt_ids(EXAMPLE, "city(name text)"))
    tokens = st.lists(st.integers(0, len(env.tokenizer) + 3), max_size=12)
    while not episode.done:
        action = data.draw(written_action(env) | bits(env) | tokens)
        ids = here.ids_of(action.data, action.cuts) if isinstance(action, Said) else action
        said.append((action if isinstance(action, Said) else None, ids))
        sql = episode.act(list(ids), [-1.0] * len(ids))
        episode.observe(None if sql is None else data.draw(OUTCOMES))
    return episode, said


# Every template and tokenizer with two dialects, one of them with all three.
PAIRS = [*((model, dialect) for model in MODELS for dialect in ("xml", "hermes")), ("qwen3-thinking", "fence")]


@pytest.mark.parametrize(("model", "dialect"), PAIRS)
@settings(max_examples=8)
@given(data=st.data())
def test_ids_text_masks_and_spans_of_a_random_conversation(model, dialect, data):
    here = world(model, dialect)
    episode, said = play(data, here)
    env, trajectory, join = here.env, episode.trajectory, here.env.token_bytes.join
    squeeze = (lambda text: text.replace(b" ", b"")) if model == "mistral" else (lambda text: text)
    shape = env.framing.shape
    size = len(trajectory)
    assert size == len(trajectory.loss_mask) == len(trajectory.action_mask) == len(trajectory.sampler_logprobs)

    position = trajectory.turns[0].action[0]
    expected_loss, expected_action, text = [0] * position, [0] * position, join(trajectory.token_ids[:position])
    for turn, (action, ids) in zip(trajectory.turns, said, strict=True):
        # Spans are ordered and nest: state, action with its SQL and events, observation.
        assert turn.state == (0, position) and turn.action == (position, position + len(ids))
        for span in (turn.sql, *(span for _, span in turn.events)):
            assert span is None or turn.action[0] <= span[0] < span[1] <= turn.action[1]
        assert [event for event, _ in turn.events] == list(turn.parsed.events)
        # The very tokens that were sampled, never encoded again; their bytes are what is parsed.
        assert trajectory.token_ids[slice(*turn.action)] == ids
        assert env.dialect.parse(join(ids)) == turn.parsed
        assert turn.action_text == join(ids).decode("utf-8", errors="replace")
        expected_loss += [1] * len(ids)
        if action is not None:
            assert join(ids) == action.data
        acting = turn.parsed.acting if action is None or action.acting is None else action.acting
        assert acting == turn.parsed.acting, "what acts is what the action was built of"
        owners = [index for index, token in enumerate(ids) for _ in env.token_bytes.of(token)]
        covered = {owners[byte] for span in acting for byte in range(*span)}
        expected_action += [int(index in covered) for index in range(len(ids))]
        text += join(ids)
        position = turn.action[1]
        if turn.observation is not None:
            assert turn.observation[0] == position
            position = turn.observation[1]
            ended = bool(ids) and ids[-1] == env.framing.before_observation[0]
            before = shape.before_observation.removeprefix(join(ids[-1:]).decode() if ended else "")
            shown = f"{before}{turn.observation_text}{shape.after_observation}".encode()
            assert squeeze(join(trajectory.token_ids[slice(*turn.observation)])) == squeeze(shown)
            text += join(trajectory.token_ids[slice(*turn.observation)])
            expected_loss += [0] * (position - turn.action[1])
            expected_action += [0] * (position - turn.action[1])
    assert position == size and join(trajectory.token_ids) == text
    assert trajectory.loss_mask == expected_loss and trajectory.action_mask == expected_action
    assert [value is not None for value in trajectory.sampler_logprobs] == [bool(on) for on in expected_loss]


@pytest.mark.parametrize(("model", "dialect"), PAIRS)
@settings(max_examples=8)
@given(outcome=OUTCOMES)
def test_an_observation_forges_neither_a_turn_nor_an_action(model, dialect, outcome):
    env = world(model, dialect).env
    special = {index for index, token in env.tokenizer.added_tokens_decoder.items() if token.special}
    episode = env.start(env.prompt_ids(EXAMPLE, "city(name text)"))
    action = env.tokenizer.encode("no action", add_special_tokens=False)
    episode.act(action, [-1.0] * len(action))
    episode.observe(outcome)
    (turn,) = episode.trajectory.turns
    framing = [index for index in (*env.framing.before_observation, *env.framing.after_observation) if index in special]
    ids = episode.trajectory.token_ids[slice(*turn.observation)]
    assert [index for index in ids if index in special] == framing
    text = turn.observation_text.encode()
    assert not env.dialect.is_complete(text, len(text)) and env.dialect.parse(text).kind is Kind.MALFORMED
    frame = env.dialect.observation("", env.framing.observation_role)
    for tag in TAGS:
        for name in (f"<{tag}>", f"</{tag}>"):
            assert turn.observation_text.count(name) == frame.count(name)
