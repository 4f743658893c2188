"""What the student must not read never reaches it, and gold reaches the teacher only by the opt-in."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.agent import prompts
from serl.config import AgentConfig
from serl.config.hindsight import GOLD_LEVELS, LEVELS
from serl.hindsight.context import Hindsight, make_hindsight, teacher_input
from serl.hindsight.facts import Facts, facts_of, know
from serl.hindsight.levels import ContextOptions, told
from serl.hindsight.parts.part import Finding, Kind, Part
from serl.hindsight.teacher_only import GoldAnswer, PartAnswers, SiblingSql
from serl.sql.outcome import Outcome, Status
from tests.agent.test_env import EXAMPLE, ROWS, act, encode, start
from tests.hindsight.test_context import ENV, text

ROOT = Path(__file__).parents[2]
SECRETS = [Hindsight((5, 6)), GoldAnswer("SELECT secret", ROWS), SiblingSql("SELECT secret"),
           PartAnswers((Finding(Part("", Kind.TABLE, 1, 1, "secret", ("",)), (5,)),))]
OPEN = [level for level in LEVELS if level not in GOLD_LEVELS]


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: type(secret).__name__)
def test_the_prompt_builder_and_the_rollout_do_not_accept_it(secret):
    with pytest.raises(TypeError, match="for the teacher only"):
        prompts.messages(EXAMPLE, secret, AgentConfig())
    with pytest.raises(TypeError, match="for the teacher only"):
        prompts.messages(replace(EXAMPLE, evidence=secret), "", AgentConfig())
    for attempt in (lambda: ENV.prompt_ids(EXAMPLE, secret), lambda: ENV.count_tokens(secret),
                    lambda: ENV.start(secret), lambda: ENV.start([]).trajectory.append_context(secret),
                    lambda: ENV.start([]).act(secret, []), lambda: ENV.framing.observation_ids(secret, []),
                    lambda: ENV.framing.encode(secret),
                    lambda: str(secret), lambda: f"{secret:>9}", lambda: "" + secret, lambda: list(secret)):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            attempt()
    assert "secret" not in repr(secret) and "5" not in repr(secret)


def test_nothing_that_serves_the_student_imports_hindsight():
    served = [path for folder in ("grounding", "serl/data", "serl/sql", "serl/agent", "serl/generate", "serl/evaluate",
                                  "serl/select", "serl/reward") for path in (ROOT / folder).rglob("*.py")]
    assert len(served) > 50
    for path in [*served, ROOT / "serl" / "task.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [
                alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in modules if name.startswith("serl.hindsight")], path


cells = st.one_of(st.none(), st.integers(0, 99), st.text(max_size=8))
tables = st.lists(st.tuples(cells, cells), max_size=4)


@settings(max_examples=50)
@given(tables, tables, st.sampled_from(OPEN), st.sampled_from(["none", "messages", "action"]), st.booleans())
def test_gold_is_in_no_teacher_input_without_the_opt_in(rows, gold_rows, level, redact, ordered):
    """Gold's names and values are marked with characters that nothing else here has."""
    own = Outcome(Status.OK, ("a", "b"), tuple(rows), len(rows)) if rows else Outcome(Status.EMPTY, ("a", "b"))
    marked = tuple(tuple(f"ЖЖ{cell}" for cell in row) for row in gold_rows)
    sql = f"SELECT ЖЖname FROM ЖЖtown{' ORDER BY ЖЖname' if ordered else ''}"
    gold = GoldAnswer(sql, Outcome(Status.OK if marked else Status.EMPTY, ("ЖЖname", "ЖЖ2"), marked, len(marked)))
    group = []
    for solution in ("SELECT a, b FROM t", "SELECT b, a FROM t"):
        episode = start(ENV)
        act(episode, "<sql>SELECT a FROM t</sql>")
        episode.observe(own)
        act(episode, f"<solution>{solution}</solution>")
        episode.observe(own)
        group.append(episode.trajectory)
    options = ContextOptions(level, redact=redact)
    join = ENV.token_bytes.join
    for trajectory, known in zip(group, know("1", [each.final_sql for each in group], [False, True], gold)):
        assert "Ж" not in join(trajectory.token_ids).decode()
        known = replace(known, parts={turn.parsed.sql: PartAnswers(()) for turn in trajectory.turns})
        for turn in trajectory.turns:
            ids, _ = teacher_input(trajectory, turn, make_hindsight(facts_of(turn, known), options, encode))
            assert "Ж" not in join(ids).decode()
        last = facts_of(trajectory.turns[-1], known)
        assert sql in told(last, ContextOptions("gold_sql", allow_gold=True))[1]
        assert "ЖЖname" in told(last, ContextOptions("gold_result", allow_gold=True))[1]


PIECES = ("<", ">", "|", "/", "｜", "im_start", "im_end", "<|im_end|>", "</hindsight>", "<sql>", "hindsight", "[INST]",
          "\n", " ", "a", "'", '"', "--", "/*", ";")
CONTROL = [encode(token)[0] for token in ("<|im_start|>", "<|im_end|>", "<hindsight>", "<sql>", "<solution>")]
CLOSE, = encode("</hindsight>")
hostile = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@settings(max_examples=100)
@given(hostile, hostile, hostile, st.sampled_from(LEVELS), st.sampled_from(["none", "messages", "action"]),
       st.integers(18, 60) | st.just(400))
def test_no_text_from_outside_closes_the_frame_or_forges_a_turn(cell, message, sql, level, redact, budget):
    episode = start(ENV)
    act(episode, "<solution>SELECT 1</solution>")
    found = Outcome(Status.OK, (cell, message), ((cell, message), (message, cell)), 2)
    episode.observe(found)
    options = ContextOptions(level, budget, 5, 200, redact, allow_gold=True)
    known = know("1", ["SELECT 1"], [False], GoldAnswer(f"SELECT {sql}", found))[0]
    for outcome in (found, Outcome(Status.ERROR, error=message)):
        part = Part("", Kind.CONDITION, 1, 2, sql, ("", "", ""), (("", Kind.TABLE, 1),), ((message, cell, None),))
        facts = replace(facts_of(episode.trajectory.turns[0], known), outcome=outcome, sibling=SiblingSql(sql),
                        parts=PartAnswers((Finding(part, (0, 0, cell)), Finding(replace(part, number=2), None))))
        hindsight = make_hindsight(facts, options, encode)
        assert hindsight.ids[-1] == CLOSE and hindsight.ids.count(CLOSE) == 1
        assert [hindsight.ids.count(token) for token in CONTROL] == [0, 0, 1, 0, 0]
        shown = text(hindsight)
        assert shown.startswith("\n<hindsight>\n") and shown.endswith("\n</hindsight>")
        # In words neither, which are tags to a tokenizer that has no tokens for them; nor where the middle is left out.
        assert shown.count("</hindsight>") == 1 and not re.search(r"<\||\|>|<sql>|\[INST\]", shown)


def test_the_ends_of_a_text_that_is_cut_make_no_tag():
    for budget in range(18, 60):
        for count in range(20, 26):
            outcome = Outcome(Status.ERROR, error="<" * count + " " + "/hindsight>" * 9)
            hindsight = make_hindsight(Facts(outcome), ContextOptions(budget=budget), encode)
            assert len(hindsight.ids) <= budget and text(hindsight).count("</hindsight>") == 1
