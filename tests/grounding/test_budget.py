"""What a budget takes from S' first."""

import pytest

from grounding import Grounder, GroundingConfig, Request, render_schema
from grounding.budget import estimate_tokens, need_of, removal_order, without
from grounding.grounded import GroundedSchema, LinkedColumn, LinkedTable
from grounding.render import fit_schema

TABLES = (
    LinkedTable("a", (
        LinkedColumn("valued", ("value",), 0.8), LinkedColumn("said", ("name",), 1.0),
        LinkedColumn("joins", ("foreign key", "join path"), 0.0), LinkedColumn("idle", ("small table",), 0.3),
        LinkedColumn("idler", ("small table",), 0.1))),
    LinkedTable("b", (LinkedColumn("id", ("primary key",), 0.2), LinkedColumn("half", ("description",), 0.5))),
    LinkedTable("c", (LinkedColumn("named", ("reasoning",), 1.0), LinkedColumn("other", ("full",), 0.2))),
)


def test_columns_leave_by_need_less_half_a_step_a_table_then_by_score():
    # need − place/2: a 3, 2, 2, 0, 0; b ½, 1½; c 2, −1
    assert removal_order(GroundedSchema(None, TABLES, ())) == [
        ("c", "other"), ("a", "idler"), ("a", "idle"), ("b", "id"), ("b", "half"),
        ("a", "joins"), ("c", "named"), ("a", "said"), ("a", "valued"),
    ]


def test_equal_columns_leave_from_the_last_table_and_column_to_the_first():
    tables = tuple(LinkedTable(t, tuple(LinkedColumn(c, ("full",)) for c in "xyz")) for t in "ab")
    order = removal_order(GroundedSchema(None, tables, ()))
    assert ["".join(place) for place in order] == ["bz", "by", "bx", "az", "ay", "ax"]


def test_what_gold_uses_leaves_last_whatever_its_table():
    tables = tuple(LinkedTable(t, (LinkedColumn("g", ("gold",)), LinkedColumn("k", ("primary key", "join path"))))
                   for t in "abcdefgh")
    order = removal_order(GroundedSchema(None, tables, ()))
    assert [column for _, column in order] == ["k"] * 8 + ["g"] * 8


@pytest.mark.parametrize(("why", "need"), [
    (("small table",), 0), (("primary key", "foreign key"), 1), (("description",), 2), (("name", "primary key"), 2),
    (("similar",), 2), (("foreign key", "join path"), 2), (("name", "value"), 3), (("reasoning",), 3), (("gold",), 3),
])
def test_need(why, need):
    assert need_of(LinkedColumn("x", why)) == need


def test_without_drops_columns_and_tables_that_are_empty_then():
    left = without(GroundedSchema(None, TABLES, ()), {("b", "id"), ("b", "half"), ("a", "idle")})
    assert [(table.name, len(table.columns)) for table in left.tables] == [("a", 4), ("c", 2)]


@pytest.mark.parametrize("mode", ["hybrid", "full"])
def test_a_budget_is_kept_and_what_it_shows_is_told(racing, tmp_path, mode):
    config = GroundingConfig(mode=mode)
    grounded = Grounder(tmp_path, "none", config).ground(Request("nationality of drivers in Monaco", racing))
    whole, least = len(render_schema(grounded)), None
    shown_before: set[tuple[str, str]] = set()
    for budget in range(12, whole // 3 + 2):
        text, shown = fit_schema(grounded, "compact", budget)
        assert estimate_tokens(text) <= budget and len(text) <= 3 * budget
        columns = {(table.name, column.name) for table in shown.tables for column in table.columns}
        assert shown_before <= columns, "a larger budget never shows less"
        assert text == render_schema(shown) or "= '" in text
        shown_before, least = columns, least or columns
    assert least == {("circuit", "country")}, "the value that the question names is the last to go"
    assert shown_before == {
        (table.name, column.name) for table in grounded.tables for column in table.columns}
