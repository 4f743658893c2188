"""Signs of wrong and of right parts, counted by hand."""

from serl.hindsight.credit.difference import compare
from serl.hindsight.credit.revealed import Revealed, markdown, revealed
from serl.hindsight.parts.asks import asks
from serl.hindsight.parts.part import Finding, Kind
from serl.hindsight.parts.signs import signs
from serl.sql.outcome import Status

SQL = "SELECT a FROM t JOIN u ON t.id = u.id WHERE t.x = 'p' AND u.y > 1 GROUP BY b"


def findings(rows: dict[tuple[Kind, int], tuple | None]) -> list[Finding]:
    parts = [part for ask in asks(SQL, Status.ERROR) for part in ask.parts]
    return [Finding(part, rows[part.kind, part.number]) for part in parts if (part.kind, part.number) in rows]


FROM = {(Kind.TABLE, 1): (5,), (Kind.TABLE, 2): (4,), (Kind.JOIN, 1): (5,)}
RAN = findings({**FROM, (Kind.CONDITION, 1): (0, 0, "P"), (Kind.CONDITION, 2): (5,), (Kind.WHERE, 1): (0,),
                (Kind.GROUP, 1): (0,)})
FAILED = findings({**FROM, (Kind.JOIN, 1): (9,), (Kind.CONDITION, 1): (2, 1, None), (Kind.CONDITION, 2): None,
                   (Kind.WHERE, 1): None, (Kind.COLUMN, 1): (5,), (Kind.GROUP, 1): None})


def test_signs_are_those_of_the_part_itself():
    by_key = {finding.part.key: finding for finding in RAN}
    assert [signs(finding, by_key) for finding in RAN] == [(), (), (), ("absent", "empty"), ("idle",), (), ()]
    by_key = {finding.part.key: finding for finding in FAILED}
    assert {finding.part.kind: signs(finding, by_key) for finding in FAILED if signs(finding, by_key)} == {
        Kind.JOIN: ("apart",), Kind.CONDITION: ("fails",)}


def test_a_part_is_wrong_where_the_difference_to_gold_marks_something_in_it():
    literal = compare(SQL, SQL.replace("'p'", "'P'")).wrong
    column = compare(SQL, SQL.replace("u.y", "u.z")).wrong
    assert [SQL[slice(*span)] for span in (*literal, *column)] == ["'p'", "y"]
    table = revealed([(RAN, literal), (FAILED, column)])
    assert table == [
        Revealed("table", 0, 4, ()),
        Revealed("join", 0, 2, (("apart", 0, 1),)),
        Revealed("condition", 2, 2, (("absent", 1, 0), ("empty", 1, 0), ("fails", 1, 0), ("idle", 0, 1))),
        Revealed("column", 0, 1, ()),
        Revealed("group by", 0, 2, ())]
    assert table[1].to_json() == {"kind": "join", "wrong": 0, "right": 2, "signs": {"apart": {"wrong": 0, "right": 1}}}
    assert "| condition | fails | 1 of 2 (50.0%) | 0 of 2 (0.0%) |" in markdown(table)
    assert "| join | apart | 0 of 0 | 1 of 2 (50.0%) |" in markdown(table)
    assert revealed([]) == []
