"""The same questions asked of another engine, in its own dialect."""

import pytest

from serl.hindsight.parts.asks import asks, found
from serl.hindsight.parts.lines import lines_of
from serl.sql.sandbox import Sandbox

duckdb = pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def tell(tmp_path_factory):
    path = tmp_path_factory.mktemp("geo") / "geo.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE city (name VARCHAR, state_id INTEGER, founded DATE)")
        connection.execute("CREATE TABLE state (id INTEGER, name VARCHAR)")
        connection.execute("INSERT INTO city VALUES ('Lima', 1, '1535-01-18'), ('Cusco', 2, '1533-03-23')")
        connection.execute("INSERT INTO city VALUES ('Tacna', 9, NULL)")
        connection.execute("INSERT INTO state VALUES (1, 'Coast'), (2, 'Andes')")
    with Sandbox(workers=1, dialect="duckdb") as sandbox:
        def lines(sql: str) -> list[str]:
            asked = asks(sql, sandbox.run(path, sql).status, sandbox.dialect)
            findings = found(asked, sandbox.run_many([(path, ask.statement) for ask in asked]))
            return [line.text for line in lines_of(findings, False, 40)]

        yield lines


def test_duckdb_is_asked_in_its_own_words(tell):
    sql = ("SELECT s.name, COUNT(*) AS n FROM city c JOIN state s ON c.state_id = s.id "
           "WHERE year(c.founded) < 1600 AND c.name <> 'LIMA' GROUP BY 1 HAVING n > 1 LIMIT 5")
    assert tell(sql) == [
        "table 1 of 2: 3 rows", "table 2 of 2: 2 rows", "join 1 of 1: 2 rows, 3 before",
        "condition 1 of 2: 2 of 2 rows",
        "condition 2 of 2: 2 of 2 rows; its text is not in the column, but in other upper or lower case",
        "all conditions: 2 of 2 rows", "group by: 2 groups", "having: 0 of 2 groups", "limit: 0 of 0 rows"]
    assert tell("SELECT name, COUNT(*), SUM(x) FROM city GROUP BY ALL") == ["table 1 of 1: 3 rows"]
    assert tell("SELECT nme FROM city WHERE founded > DATE '1534-01-01'") == [
        "table 1 of 1: 3 rows", "condition 1 of 1: 1 of 3 rows", "column 1 of 1: fails"]
