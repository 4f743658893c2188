"""Value targets from gold SQL: stored spellings, kinds, and agreement with the shared task."""

import json

import pytest

from grounding.errors import InputError
from grounding.evaluate.questions import Question, read_split
from grounding.evaluate.targets import databases_of, kind_of, value_items
from grounding.evaluate.value_task import Item, Target, read_task, write_task


def targets(path, sql, question="?"):
    questions = [Question(0, question, "", "racing", path, sql)]
    items, fates = value_items(questions, databases_of(questions))
    return [target for item in items for target in item.targets], fates


def test_a_literal_is_found_as_it_is_stored(racing):
    found, _ = targets(racing, "SELECT id FROM race WHERE name = 'italian grand prix '", "the Italian Grand Prix")
    assert found == [Target("race", "name", frozenset({"ITALIAN GRAND PRIX"}), "case-differs")]


def test_a_target_of_names_beyond_ascii_is_hit_by_their_stored_spelling(make_database, tmp_path):
    path = make_database("""CREATE TABLE "Élan" ("Größe Ä" TEXT); INSERT INTO "Élan" VALUES ('klein');""")
    (target,), _ = targets(path, """SELECT 1 FROM "Élan" WHERE "größe Ä" = 'klein'""")
    assert target.is_hit_by(("Élan", "Größe Ä", "klein")) and not target.is_hit_by(("élan", "Größe Ä", "klein"))
    item = Item("?", "", path, (target,))
    write_task(tmp_path / "task.jsonl", [item], tmp_path)
    assert read_task(tmp_path / "task.jsonl", tmp_path) == [item]


def test_spellings_that_differ_in_case_are_all_accepted_and_numbers_are_read_as_text(make_database):
    path = make_database("CREATE TABLE t (city TEXT, year INTEGER); INSERT INTO t VALUES ('Oslo', 1970), ('OSLO', 1);")
    found, _ = targets(path, "SELECT * FROM t WHERE city = 'oslo' AND year = '1970'")
    assert [(target.accept, target.kind) for target in found] == [
        ({"Oslo", "OSLO"}, "synonym/abbr"), ({"1970"}, "number-like")]


def test_a_pattern_counts_where_one_value_fits_it(racing):
    found, _ = targets(racing, "SELECT id FROM driver WHERE name LIKE 'jen%'", "drivers called Jen")
    assert [(target.accept, target.kind) for target in found] == [({"Jenson Button"}, "case-differs")]
    found, fates = targets(racing, "SELECT id FROM race WHERE name LIKE '%Prix'")
    assert not found and fates["comparison: pattern of several values or none"] == 1


def test_every_comparison_and_question_is_counted(racing):
    assert targets(racing, "SELECT id FROM driver WHERE name = 'Nobody'")[1] == {
        "comparison: no such value stored": 1, "question: without targets": 1}
    assert targets(racing, "SELECT FROM")[1] == {"question: gold cannot be resolved": 1}


@pytest.mark.parametrize(("value", "said", "kind"), [
    ("F", "female", "short<=2"), ("2,014", "2014", "number-like"), ("Asia", "in Asia?", "verbatim"),
    ("Asia", "in asia", "case-differs"), ("Cat", "two cats", "morph/typo"), ("Robertson", "Robertsen", "morph/typo"),
    ("Asia", "Caucasian", "synonym/abbr"),
])
def test_kinds(value, said, kind):
    assert kind_of(value, value, said) == kind


def test_tasks_are_written_as_they_are_read(racing, tmp_path):
    questions = [Question(0, "?", "", "racing", racing, "SELECT id FROM driver WHERE nationality = 'British'")]
    items, _ = value_items(questions, databases_of(questions))
    write_task(tmp_path / "task.jsonl", items, tmp_path)
    assert read_task(tmp_path / "task.jsonl", tmp_path) == items
    with pytest.raises(InputError, match="not below"):
        write_task(tmp_path / "task.jsonl", items, tmp_path / "elsewhere")


def test_the_shared_task_is_derived_again_whole(shared_data):
    """All its 408 targets, with their kinds; it leaves out the stand-in database wta_1."""
    split = read_split("spider", shared_data / "spider", "dev")
    questions = [question for question in split.questions if question.db_id != "wta_1"]
    items, _ = value_items(questions, databases_of(questions))
    derived = {(item.question, item.database.stem): set(item.targets) for item in items}
    rows = [json.loads(line) for line in (shared_data / "value_task" / "spider_dev.jsonl").read_text().splitlines()]
    shared = [(row["question"], row["db_id"], Target(target["table"].lower(), target["column"].lower(),
               frozenset(target["accept"]), target["match_type"])) for row in rows for target in row["targets"]]
    assert all(target in derived[question, db_id] for question, db_id, target in shared)
    assert len(shared) == sum(map(len, derived.values())) == 408
