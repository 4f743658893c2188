"""Lessons of hand-made groups: exactly the expected ids, targets and signs, and never gold."""

from dataclasses import replace

import pytest

from serl.config import AgentConfig, Config, HindsightConfig, TeachConfig, load_config
from serl.errors import InputError
from serl.hindsight.context import empty_hindsight, make_hindsight
from serl.hindsight.facts import facts_of, know
from serl.hindsight.levels import ContextOptions
from serl.hindsight.teacher_only import GoldAnswer
from serl.sql.outcome import Outcome, Status
from serl.sql.tree.schema import schema_of
from serl.train.teach.lessons import Lesson, LessonWriter
from tests.agent.test_env import TOKENIZER, encode
from tests.hindsight.credit.played import PIECE
from tests.train.credit.players import GOLD, WRONG, group, sample_of

SECRET = "SELECT secret FROM gold_alone"


def config_of(levels=("exec+verdict",), **options) -> Config:
    return Config(hindsight=HindsightConfig(budget=96), agent=AgentConfig(observation_rows=3),
                  teach=TeachConfig(levels=levels, **{"contrast": 0.0, **options}))


def lessons_of(samples, city, **options) -> list[Lesson]:
    return LessonWriter(config_of(**options), encode, PIECE).write("1", samples, schema_of(city))


def text(ids) -> str:
    return b"".join(PIECE(index) for index in ids).decode()


def by_kind(lessons) -> dict[tuple[str, str], list[Lesson]]:
    found: dict[tuple[str, str], list[Lesson]] = {}
    for lesson in lessons:
        found.setdefault((lesson.kind, lesson.level), []).append(lesson)
    return found


def signed(lesson: Lesson, sign: int) -> str:
    """The text of the action's tokens of one sign, without spaces."""
    action = lesson.tail.ids[lesson.tail.first:]
    return text(token for token, own in zip(action, lesson.signs, strict=True) if own == sign).replace(" ", "")


def test_a_wrong_action_is_corrected_by_the_nearest_right_one_behind_its_own_state_and_hindsight(city):
    far = sample_of("SELECT name, area FROM city WHERE people < 2 OR area IS NULL", True, 1.0)
    near = sample_of(GOLD, True, 1.0)
    wrong = sample_of(WRONG, False, -1.0, query="SELECT 1")
    lessons = by_kind(lessons_of([far, wrong, near], city, empty_share=0.0))
    (corrected,), kept = lessons["corrected", "exec+verdict"], lessons["kept", "exec+verdict"]

    config = config_of()
    options = replace(ContextOptions.of(config), level="exec+verdict")
    trajectory, turn = wrong.trajectory, wrong.trajectory.turns[-1]
    known = know("1", [None], [False], None)[0]
    hindsight = make_hindsight(facts_of(turn, known), options, encode)
    assert TOKENIZER.decode(hindsight.ids).endswith("matches the expected result: no\n</hindsight>")
    state = trajectory.token_ids[: turn.action[0]]
    target = near.trajectory.token_ids[slice(*near.trajectory.turns[-1].action)]
    assert corrected.tail.ids == [*state[: turn.splice_at], *hindsight.ids, *state[turn.splice_at:], *target]
    assert corrected.tail.first == len(state) + len(hindsight.ids)
    assert corrected.tail.shared == trajectory.turns[0].splice_at
    assert corrected.signs == (1,) * len(target)

    assert [text(lesson.tail.ids[lesson.tail.first:]) for lesson in kept] == [
        f"<think>é</think><solution>{sql}</solution>" for sql in (far.trajectory.final_sql, GOLD)]
    assert all("matches the expected result: yes" in text(lesson.tail.ids) for lesson in kept)


def test_solutions_behind_the_empty_frame_stay_as_they_were_sampled(city):
    samples = group()
    lessons = by_kind(lessons_of(samples, city, empty_share=1.0))
    empty = empty_hindsight(ContextOptions.of(config_of()), encode)
    actions = [sample.trajectory.token_ids[slice(*sample.trajectory.turns[-1].action)] for sample in samples]
    own = lessons["own", "empty"]
    assert sorted(list(lesson.tail.ids[lesson.tail.first:]) for lesson in own) == sorted(actions)
    assert all(text(empty.ids) in text(lesson.tail.ids) and set(lesson.signs) == {1} for lesson in own)
    assert ("own", "empty") not in by_kind(lessons_of(samples, city, empty_share=0.0))
    half = [len(by_kind(lessons_of(group() * 20, city, empty_share=0.5))["own", "empty"]) for _ in range(2)]
    assert half[0] == half[1] and 25 < half[0] < 55, "seeded, and about half of 80"


def test_a_contrast_blames_what_differs_from_the_nearest_right_action_and_keeps_the_rest(city):
    lessons = by_kind(lessons_of(group(), city, contrast=0.5, empty_share=0.0))
    first, short, silent = lessons["contrast", "exec+verdict"]
    assert signed(first, -1) == signed(silent, -1) == "people"
    assert signed(first, 1) == "SELECTnameFROMcityWHERE>5</solution>"
    assert signed(short, -1) == "</solution>" and signed(short, 1) == "SELECTnameFROMcity"
    assert signed(first, 0) == "<think>é</think><solution>"
    weights = first.weights(TeachConfig(contrast=0.5, imitation=2.0))
    assert set(weights) == {0.5, -0.5} and len(weights) == sum(first.tail.scored)
    assert set(lessons["kept", "exec+verdict"][0].weights(TeachConfig(contrast=0.5, imitation=2.0))) == {2.0}
    assert first.sampled == (-0.5,) * len(first.signs), "what the policy sampled them with"
    assert len(lessons["contrast", "empty"]) == 3, "to be examined, not learned from"


def test_the_control_without_hindsight_has_the_same_targets_behind_the_empty_frame(city):
    informed = by_kind(lessons_of(group(), city, contrast=1.0, empty_share=1.0))
    control = by_kind(lessons_of(group(), city, levels=("empty",), contrast=1.0, empty_share=1.0))
    assert set(control) == {("corrected", "empty"), ("kept", "empty"), ("contrast", "empty")}
    for kind in ("corrected", "kept", "contrast"):
        pairs = zip(informed[kind, "exec+verdict"], control[kind, "empty"], strict=True)
        for one, other in pairs:
            assert one.tail.ids[one.tail.first:] == other.tail.ids[other.tail.first:] and one.signs == other.signs
            assert "matches the expected" not in text(other.tail.ids)


def test_several_levels_each_have_their_lessons(city):
    lessons = by_kind(lessons_of(group(), city, levels=("exec", "exec+verdict", "exec+sibling"), empty_share=0.0))
    assert {level for kind, level in lessons if kind == "corrected"} == {"exec", "exec+verdict", "exec+sibling"}
    assert all(f"another query that matches the expected result: {GOLD}" in text(lesson.tail.ids)
               for lesson in lessons["corrected", "exec+sibling"])


def test_ties_between_right_actions_are_seeded_and_meet_each_of_them(city):
    def target(seed: int) -> str:
        config = replace(config_of(empty_share=0.0), seed=seed)
        right = [sample_of(f"SELECT name FROM city WHERE area > {number}", True, 1.0) for number in (1, 2, 3)]
        lessons = LessonWriter(config, encode, PIECE).write(
            "1", [sample_of("SELECT name FROM city WHERE area > 9", False, -1.0), *right], schema_of(city))
        ((lesson,),) = [own for (kind, _), own in by_kind(lessons).items() if kind == "corrected"]
        return text(lesson.tail.ids[lesson.tail.first:])

    found = [target(seed) for seed in range(20)]
    assert found == [target(seed) for seed in range(20)] and len(set(found)) == 3


def test_groups_that_are_all_right_or_all_wrong_and_samples_that_say_nothing_give_no_lesson(city):
    assert lessons_of([sample_of(GOLD, True, 0.0)] * 2, city) == []
    assert lessons_of([sample_of(WRONG, False, 0.0)] * 2, city) == []
    unscored = replace(sample_of(WRONG, False, 0.0), reward=None)
    broken = sample_of(WRONG, False, 0.0)
    broken.trajectory.turns[-1].outcome = Outcome(Status.INFRASTRUCTURE)
    assert lessons_of([sample_of(GOLD, True, 0.0), unscored, broken], city) == []
    unreadable = by_kind(lessons_of([sample_of(GOLD, True, 1.0), sample_of("SELEC name FROM", False, -1.0)], city))
    assert len(unreadable["corrected", "exec+verdict"]) == 1 and ("contrast", "exec+verdict") not in unreadable


def test_a_lesson_that_does_not_fit_the_model_is_left_out(city):
    whole = lessons_of(group(), city)
    config = config_of()
    longest = max(len(lesson.tail.ids) for lesson in whole)
    config = replace(config, model=replace(config.model, max_length=longest - 1))
    less = LessonWriter(config, encode, PIECE).write("1", group(), schema_of(city))
    assert 0 < len(less) < len(whole) and max(len(lesson.tail.ids) for lesson in less) < longest


def test_gold_that_a_sample_knows_is_not_read_and_levels_that_show_gold_are_refused(city):
    gold = GoldAnswer(SECRET, Outcome(Status.OK, ("secret",), (("gold",),), 1))
    finals, correct = zip(*((sample.trajectory.final_sql, sample.correct) for sample in group()))
    knowing = [replace(sample, known=known) for sample, known in zip(group(), know("1", finals, correct, gold))]
    options = {"levels": ("exec", "exec+verdict", "exec+sibling"), "contrast": 1.0, "empty_share": 1.0}
    lessons = lessons_of(knowing, city, **options)
    assert lessons == lessons_of(group(), city, **options)
    assert not any("secret" in text(lesson.tail.ids) for lesson in lessons)
    for level in ("exec+diff", "gold_sql", "gold_result", "everything"):
        with pytest.raises(InputError, match="show nothing of gold"):
            load_config(None, [("teach.levels", f"[{level}]"), ("hindsight.allow_gold", "true")])
    with pytest.raises(ValueError, match="the facts hold none"):
        lessons_of(knowing, city, levels=("exec+diff",))


def test_a_budget_without_room_for_the_frame_is_an_error():
    config = replace(config_of(), hindsight=HindsightConfig(budget=4))
    with pytest.raises(InputError, match="hindsight.budget 4"):
        LessonWriter(config, encode, PIECE)
