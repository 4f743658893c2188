"""A value task is read strictly, and recall counts what is right in table, column and value."""

import json

import pytest

from grounding.errors import InputError
from grounding.evaluate.value_task import Item, Target, as_rows, read_task, recall

PARIS = Target("city", "name", frozenset({"Paris", "PARIS"}), "verbatim")
FRANCE = Target("country", "name", frozenset({"France"}), "synonym/abbr")


def item(tmp_path, *targets) -> Item:
    return Item("?", "", tmp_path, targets)


def test_a_hit_needs_table_column_and_value():
    assert PARIS.is_hit_by(("City", "NAME", "PARIS"))
    assert not any(PARIS.is_hit_by(found) for found in [("city", "name", "paris"), ("country", "name", "Paris"),
                                                        ("city", "mayor", "Paris")])


def test_recall_by_kind_and_cut(tmp_path):
    items = [item(tmp_path, PARIS, FRANCE), item(tmp_path, PARIS), item(tmp_path, PARIS)]
    wrong = ("city", "name", "Rome")
    rankings = [[wrong, ("city", "name", "Paris")], [("city", "name", "PARIS")], [wrong] * 5]
    found = recall(items, rankings, (1, 2))
    assert [found["all"][cut].value for cut in (1, 2)] == [1 / 4, 2 / 4] and found["all"][1].targets == 4
    assert [found["verbatim"][cut].value for cut in (1, 2)] == [1 / 3, 2 / 3]
    assert found["synonym/abbr"][2].value == 0 and found["synonym/abbr"][2].high == 0
    assert found["verbatim"][1].low == 0 and found["verbatim"][1].high == 1
    assert as_rows(found)[2] == ["synonym/abbr", "1", "0.0 (0.0–0.0)", "0.0 (0.0–0.0)"]


def test_files_are_read_strictly(tmp_path):
    (tmp_path / "city.sqlite").touch()
    target = {"table": "City", "column": "Name", "value": "Paris", "accept": ["Paris"], "match_type": "verbatim"}
    row = {"question": "?", "evidence": "", "db": "city.sqlite", "targets": [target]}
    path = tmp_path / "task.jsonl"
    path.write_text(json.dumps(row) + "\n")
    (found,) = read_task(path, tmp_path)
    assert found == Item("?", "", tmp_path / "city.sqlite", (Target("city", "name", frozenset({"Paris"}), "verbatim"),))
    path.write_text(json.dumps(row) + "\n" + json.dumps({"question": "?"}) + "\n")
    with pytest.raises(InputError, match="line 2: not an item"):
        read_task(path, tmp_path)
    path.write_text(json.dumps(row | {"db": "none.sqlite"}) + "\n")
    with pytest.raises(InputError, match="line 1: no database .*none.sqlite"):
        read_task(path, tmp_path)


def test_the_real_task_is_read(shared_data):
    items = read_task(shared_data / "value_task" / "spider_dev.jsonl", shared_data)
    assert len(items) == 325 and sum(len(item.targets) for item in items) == 408
