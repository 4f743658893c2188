"""Teacher input: the student's exact ids with hindsight before the close of the last message; budgets."""

import pytest
import torch

from serl.agent.trajectory import Trajectory
from serl.hindsight.context import Hindsight, empty_hindsight, frame, make_hindsight, teacher_input
from serl.hindsight.facts import Facts
from serl.hindsight.levels import ContextOptions
from serl.sql.outcome import Outcome, Status
from serl.train.scoring import Tail, score
from tests.agent.test_env import ROWS, TOKENIZER, act, encode, environment, start
from tests.models import tiny_model

ENV = environment()
OPTIONS = ContextOptions(budget=200, rows=3, chars=24)
ERROR = Outcome(Status.ERROR, error="no such table: town")
OPENING, CLOSING = encode("\n<hindsight>\n"), encode("\n</hindsight>")


def played() -> Trajectory:
    episode = start(ENV)
    act(episode, "<sql>SELECT name FROM city</sql>")
    episode.observe(ROWS)
    act(episode, "<solution>SELECT 1</solution>")
    episode.observe(ERROR)
    return episode.trajectory


def text(hindsight: Hindsight) -> str:
    """A budget may cut inside a character, so that what is left of it stands for none."""
    return ENV.token_bytes.join(hindsight.ids).decode(errors="replace")


def test_each_turn_is_a_branch_with_only_its_own_hindsight():
    trajectory = played()
    for turn, own, other in zip(trajectory.turns, ("Lima", "no such table"), ("no such table", "hindsight>\n2 rows")):
        hindsight = make_hindsight(Facts(turn.outcome), OPTIONS, encode)
        ids, first = teacher_input(trajectory, turn, hindsight)
        shown = ENV.token_bytes.join(ids).decode()
        assert own in shown and other not in shown
        assert ids[first:] == trajectory.token_ids[slice(*turn.action)]
        size = len(hindsight.ids)
        assert ids[: turn.splice_at] + ids[turn.splice_at + size:] == trajectory.token_ids[: turn.action[1]]
        after = ENV.token_bytes.join(ids[turn.splice_at + size: first]).decode()
        assert after == "<|im_end|>\n<|im_start|>assistant\n"


def test_an_empty_splice_gives_the_students_own_ids():
    trajectory = played()
    ids, first = teacher_input(trajectory, trajectory.turns[1], Hindsight(()))
    assert ids == trajectory.token_ids[: trajectory.turns[1].action[1]]
    assert first == trajectory.turns[1].action[0]


@pytest.mark.parametrize("share", [True, False])
def test_a_synchronized_teacher_with_an_empty_splice_has_no_gap(share):
    trajectory, model = played(), tiny_model(len(TOKENIZER))
    student = score(model, [Tail(trajectory.token_ids, trajectory.turns[0].action[0], 1)], 512, 1.0, share)[0]
    inputs = [teacher_input(trajectory, turn, Hindsight(())) for turn in trajectory.turns]
    scores = score(model, [Tail(*spliced, trajectory.turns[0].splice_at) for spliced in inputs], 512, 1.0, share)
    told = teacher_input(trajectory, trajectory.turns[1], make_hindsight(Facts(ERROR), OPTIONS, encode))
    other = score(model, [Tail(*told, 1)], 512, 1.0, share)[0]
    begin = trajectory.turns[0].action[0]
    for turn, teacher in zip(trajectory.turns, scores):
        torch.testing.assert_close(teacher, student[turn.action[0] - begin: turn.action[1] - begin], rtol=0, atol=1e-5)
    assert (other - scores[1]).abs().max() > 1e-3, "hindsight changes the score: the equality above is no accident"


@pytest.mark.parametrize(("outcome", "body"), [
    (ROWS, "2 rows\nname | people\nLima | 10\nCusco | NULL"),
    (Outcome(Status.EMPTY, ("name",)), "0 rows\nname"),
    (Outcome(Status.OK, ("n",), tuple((i,) for i in range(5)), 5), "5 rows\nn\n0\n1\n2\n..."),
    (Outcome(Status.TOO_LARGE, ("n",), ((1,),), 9, "more than 8 rows"), "more than 1 rows\nn\n1"),
    (ERROR, "error: no such table: town"),
    (Outcome(Status.OK, ("a b", "x"), ((2.5, b"ab"), ("long " * 9, "<sql>")), 2),
     "2 rows\na b | x\n2.5 | <2 bytes>\nlong long long long lon… | < sql>"),
])
def test_exec_is_word_for_word_what_the_shipped_model_was_trained_on(outcome, body):
    hindsight = make_hindsight(Facts(outcome, "SELECT n FROM town", final=True, correct=True), OPTIONS, encode)
    assert list(hindsight.ids) == OPENING + encode(body) + CLOSING
    assert text(hindsight) == f"\n<hindsight>\n{body}\n</hindsight>"
    room = 24 - len(OPENING) - len(CLOSING)
    cut = make_hindsight(Facts(outcome), ContextOptions(budget=24, rows=3, chars=24), encode)
    ids, joint = encode(body), encode(" … ") if "<" in body else []
    if len(ids) > room:
        ends = room - len(joint)
        ids = ids[: (ends + 1) // 2] + joint + ids[len(ids) - ends // 2:]
    assert list(cut.ids) == OPENING + ids + CLOSING


def test_over_budget_the_body_loses_its_middle_and_the_frame_nothing():
    body = "abc " * 100
    whole = frame(body, encode, 10_000).ids
    cut = frame(body, encode, 40).ids
    assert len(cut) == 40
    assert list(cut[: len(OPENING)]) == OPENING and list(cut[-len(CLOSING):]) == CLOSING
    room = 40 - len(OPENING) - len(CLOSING)
    head = (room + 1) // 2
    assert cut[len(OPENING): len(OPENING) + head] == whole[len(OPENING): len(OPENING) + head]
    assert cut[len(OPENING) + head: -len(CLOSING)] == whole[-len(CLOSING) - (room - head): -len(CLOSING)]


def test_an_answer_and_a_note_share_the_room_and_take_what_the_other_leaves():
    def parts(answer: int, note: int, room: int) -> tuple[int, int]:
        ids = frame("a" * answer, list, room + 2 * len("\n<t>\n"), "b" * note, "t").ids
        return ids.count("a"), ids.count("b")

    assert parts(4, 3, 20) == (4, 3)  # and a line break between them
    assert parts(50, 5, 20) == (14, 5)
    assert parts(5, 50, 20) == (5, 14)
    assert parts(50, 50, 20) == (10, 9)
    assert parts(0, 50, 20) == (0, 20)


def test_a_budget_without_room_gives_no_hindsight_and_an_empty_body_the_frame():
    assert frame("text", encode, 5) is None and frame("", encode, 5, note="text") is None
    assert list(empty_hindsight(OPTIONS, encode).ids) == OPENING + CLOSING
    assert empty_hindsight(ContextOptions(budget=4), encode) is None
    assert make_hindsight(Facts(None, sql=None), OPTIONS, encode) is None


def test_a_failure_of_ours_tells_nothing():
    outcome = Outcome(Status.INFRASTRUCTURE, error="city.sqlite: disk I/O error")
    assert make_hindsight(Facts(outcome), OPTIONS, encode) is None
