"""The tree difference, by hand: «wrong» tokens of the predicted text, ⟨missing⟩ pieces of the reference."""

import re

import pytest

from serl.hindsight.credit.difference import Difference, Unparsed, compare

SCHEMA = {"city": ["id", "name", "country_id", "people", "area", "mayor"],
          "country": ["id", "name", "continent", "code"],
          "person": ["id", "name", "boss_id", "city_id", "born"]}


def marked(text: str) -> tuple[str, Difference]:
    """The text without its marks, and the difference that they say."""
    plain, wrong, insert_at, missing, start = "", [], [], [], 0
    for piece in re.split(r"(«|»|⟨.*?⟩)", text):
        if piece == "«":
            start = len(plain)
        elif piece == "»":
            wrong.append((start, len(plain)))
        elif piece.startswith("⟨"):
            insert_at.append(len(plain))
            missing.append(piece[1:-1])
        else:
            plain += piece
    return plain, Difference(tuple(wrong), tuple(insert_at), tuple(missing), 0.0)


def check(predicted: str, reference: str, **options) -> None:
    plain, expected = marked(predicted)
    found = compare(plain, reference, SCHEMA, **options)
    assert isinstance(found, Difference), found
    assert (found.wrong, found.insert_at, found.missing) == (expected.wrong, expected.insert_at, expected.missing)
    assert found.equal == (found.cost == 0) == ("«" not in predicted and "⟨" not in predicted)


J = "FROM city JOIN country ON city.country_id = country.id"

DIFFERENT = [
    # one token
    ("SELECT «people» FROM city", "SELECT name FROM city"),
    ("SELECT c.«people» FROM city AS c", "SELECT name FROM city"),
    ("SELECT «MAX»(people) FROM city", "SELECT MIN(people) FROM city"),
    ("SELECT name FROM city WHERE people > «6»", "SELECT name FROM city WHERE people > 5"),
    ("SELECT name FROM city WHERE people «>» 5", "SELECT name FROM city WHERE people >= 5"),
    ("SELECT name FROM city WHERE name = «'rome'»", "SELECT name FROM city WHERE name = 'Rome'"),
    ("SELECT name FROM «city»", "SELECT name FROM country"),
    ("SELECT name FROM city ORDER BY area LIMIT «3»", "SELECT name FROM city ORDER BY area LIMIT 1"),
    ("SELECT name FROM city ORDER BY area «DESC»", "SELECT name FROM city ORDER BY area ASC"),
    ("SELECT name FROM city WHERE mayor «=» NULL", "SELECT name FROM city WHERE mayor IS NULL"),
    ("SELECT name FROM city WHERE id «NOT» IN (1, 2)", "SELECT name FROM city WHERE id IN (2, 1)"),
    ("SELECT name FROM city WHERE area > «people»", "SELECT name FROM city WHERE area > id"),
    ("SELECT name FROM city WHERE area «>» people", "SELECT name FROM city WHERE people > area"),
    ("SELECT name FROM city WHERE people BETWEEN 3 AND «8»", "SELECT name FROM city WHERE people BETWEEN 3 AND 9"),
    ("SELECT name FROM city WHERE people = 3 «AND» area = 8", "SELECT name FROM city WHERE area = 8 OR people = 3"),
    ("SELECT name FROM city WHERE area > 2 «EXCEPT» SELECT name FROM city WHERE people < 3",
     "SELECT name FROM city WHERE area > 2 INTERSECT SELECT name FROM city WHERE people < 3"),
    ("SELECT CAST(area AS «TEXT») FROM city", "SELECT CAST(area AS FLOAT) FROM city"),
    ("SELECT strftime(«'%m'», born) FROM person", "SELECT strftime('%Y', born) FROM person"),
    ("SELECT area * «100» FROM city", "SELECT 100.0 * area FROM city"),
    ("SELECT name FROM city WHERE people > (SELECT AVG(«people») FROM city)",
     "SELECT name FROM city WHERE people > (SELECT AVG(area) FROM city)"),
    # qualifiers and FROM
    ("SELECT «country».name FROM «country»", "SELECT city.name FROM city"),
    ("SELECT T1.name FROM «country» AS T1", "SELECT name FROM city"),
    (f"SELECT «country».name {J}", f"SELECT city.name {J}"),
    (f"SELECT⟨city.⟩ name {J}", f"SELECT city.name {J}"),
    ("SELECT city.name FROM city JOIN country ON city.«id» = country.id", f"SELECT city.name {J}"),
    ("SELECT «a».name FROM person a JOIN person b ON a.boss_id = b.id",
     "SELECT p1.name FROM person p1 JOIN person p2 ON p2.boss_id = p1.id"),
    # what does not belong
    ("SELECT name FROM city «WHERE people > 5»", "SELECT name FROM city"),
    ("SELECT name FROM city WHERE «people > 5 AND» area < 3", "SELECT name FROM city WHERE area < 3"),
    ("SELECT name FROM city WHERE people > 5 «AND area < 3»", "SELECT name FROM city WHERE people > 5"),
    ("SELECT name FROM city WHERE people = 3 «OR area = 8»", "SELECT name FROM city WHERE people = 3"),
    ("SELECT name«, people», area FROM city", "SELECT name, area FROM city"),
    ("SELECT «people,» name FROM city", "SELECT name FROM city"),
    ("SELECT «DISTINCT» name FROM city", "SELECT name FROM city"),
    ("SELECT COUNT(«DISTINCT» name) FROM city", "SELECT COUNT(name) FROM city"),
    ("SELECT «MAX(»people«)» FROM city", "SELECT people FROM city"),
    (f"SELECT city.name FROM city «{J[10:]}»", "SELECT name FROM city"),
    ("SELECT city.name FROM city «LEFT» JOIN country ON city.country_id = country.id", f"SELECT city.name {J}"),
    ("SELECT people FROM city «NATURAL» JOIN person", "SELECT people FROM city JOIN person"),
    ("SELECT people FROM city «LEFT» JOIN person", "SELECT people FROM city, person"),
    ("SELECT name FROM city WHERE id IN (3, 8«, 5»)", "SELECT name FROM city WHERE id IN (8, 3)"),
    ("SELECT name FROM city WHERE area > 2 «INTERSECT SELECT name FROM city WHERE people < 3»",
     "SELECT name FROM city WHERE area > 2"),
    ("SELECT name FROM city «ORDER BY area DESC LIMIT 1»", "SELECT name FROM city"),
    # what is missing
    ("SELECT name FROM city⟨WHERE people > 5⟩", "SELECT name FROM city WHERE people > 5"),
    ("SELECT name FROM city WHERE area < 3⟨people > 5⟩", "SELECT name FROM city WHERE people > 5 AND area < 3"),
    ("SELECT name FROM city WHERE area < 3⟨people BETWEEN 3 AND 8⟩",
     "SELECT name FROM city WHERE people BETWEEN 3 AND 8 AND area < 3"),
    ("SELECT name FROM city ORDER BY area⟨DESC⟩ LIMIT 1", "SELECT name FROM city ORDER BY area DESC LIMIT 1"),
    ("SELECT name FROM city ORDER BY area⟨LIMIT 1⟩", "SELECT name FROM city ORDER BY area LIMIT 1"),
    ("SELECT⟨DISTINCT⟩ name FROM city", "SELECT DISTINCT name FROM city"),
    ("SELECT COUNT(⟨DISTINCT⟩name) FROM city", "SELECT COUNT(DISTINCT name) FROM city"),
    ("SELECT⟨MAX(…)⟩ people FROM city", "SELECT MAX(people) FROM city"),
    ("SELECT⟨CAST(… AS REAL)⟩ area / people FROM city", "SELECT CAST(area AS REAL) / people FROM city"),
    ("SELECT name⟨people⟩ FROM city", "SELECT name, people FROM city"),
    ("SELECT country_id, COUNT(*) FROM city⟨GROUP BY country_id⟩",
     "SELECT country_id, COUNT(*) FROM city GROUP BY country_id"),
    ("SELECT name FROM city WHERE name⟨NOT⟩ IN ('a'⟨, 'b'⟩)", "SELECT name FROM city WHERE name NOT IN ('a', 'b')"),
    ("SELECT name FROM city WHERE mayor IS⟨NOT⟩ NULL", "SELECT name FROM city WHERE mayor IS NOT NULL"),
    ("SELECT name FROM city WHERE mayor «NOTNULL» AND id = 1", "SELECT name FROM city WHERE mayor ISNULL AND id = 1"),
    ("SELECT name FROM city⟨WHERE mayor NOTNULL⟩", "SELECT name FROM city WHERE mayor NOTNULL"),
    ("SELECT name FROM city ORDER BY name⟨COLLATE NOCASE⟩ DESC",
     "SELECT name FROM city ORDER BY name COLLATE NOCASE DESC"),
    ("SELECT name FROM city WHERE name = 'x' COLLATE «RTRIM»",
     "SELECT name FROM city WHERE name = 'x' COLLATE NOCASE"),
    ("SELECT name FROM city WHERE id IN (3, 8⟨5⟩)", "SELECT name FROM city WHERE id IN (8, 3, 5)"),
    (f"SELECT city.name FROM city⟨{J[10:]}⟩ WHERE country.code = 'IT'",
     f"SELECT city.name {J} WHERE country.code = 'IT'"),
    ("SELECT city.name FROM city⟨LEFT⟩ JOIN country ON city.country_id = country.id",
     f"SELECT city.name {J.replace('JOIN', 'LEFT JOIN')}"),
    ("SELECT name FROM city UNION⟨ALL⟩ SELECT name FROM country",
     "SELECT name FROM city UNION ALL SELECT name FROM country"),
    ("SELECT name FROM city WHERE id NOT IN (SELECT city_id FROM person⟨WHERE born > 1900⟩)",
     "SELECT name FROM city WHERE id NOT IN (SELECT city_id FROM person WHERE born > 1900)"),
    ("SELECT name FROM city WHERE people >⟨(SELECT … FROM city)⟩ AVG(people)",
     "SELECT name FROM city WHERE people > (SELECT AVG(people) FROM city)"),
    # several at once
    ("SELECT «AVG»(area) FROM city WHERE «people» > 5⟨LIMIT 1⟩", "SELECT SUM(area) FROM city WHERE id > 5 LIMIT 1"),
    ("SELECT name FROM person WHERE⟨strftime('%Y', …)⟩ born = «'2019'»",
     "SELECT name FROM person WHERE strftime('%Y', born) = '2018'"),
    ("SELECT SUM(CASE WHEN people > «7» THEN 1 ELSE 0 END) * 100 / COUNT(*) FROM city⟨WHERE area < 3⟩",
     "SELECT SUM(CASE WHEN people > 5 THEN 1 ELSE 0 END) * 100 / COUNT(*) FROM city WHERE area < 3"),
    # an alias or a number is as wrong as what it stands for, and is not blamed for it
    ("SELECT country_id, «MAX»(area) AS n FROM city GROUP BY 1 ORDER BY n",
     "SELECT country_id, MIN(area) FROM city GROUP BY country_id ORDER BY MIN(area)"),
    ("SELECT country_id, MAX(area) AS n FROM city GROUP BY country_id ORDER BY «n»",
     "SELECT country_id, MAX(area) FROM city GROUP BY country_id ORDER BY COUNT(*)"),
    ("WITH t AS (SELECT name, «people» FROM city) SELECT t.name FROM t",
     "WITH t AS (SELECT name, area FROM city) SELECT t.name FROM t"),
]

SAME = [
    ("select NAME from CITY c", "SELECT city.name FROM city"),
    ("SELECT T1.name FROM city AS T1 JOIN country AS T2 ON T1.country_id = T2.id WHERE T2.code = 'IT'",
     "SELECT city.name FROM country JOIN city ON country.id = city.country_id WHERE code = 'IT'"),
    ("SELECT city.name FROM city, country WHERE city.country_id = country.id AND code = 'IT'",
     "SELECT city.name FROM city JOIN country ON city.country_id = country.id WHERE code = 'IT'"),
    ("SELECT name FROM city WHERE people > 5 AND area < 3", "SELECT name FROM city WHERE (3 > area) AND people > 5.0"),
    ("SELECT name FROM city WHERE people BETWEEN 3 AND 8", "SELECT name FROM city WHERE people <= 8 AND people >= 3"),
    ("SELECT name FROM city WHERE people NOT BETWEEN 3 AND 8", "SELECT name FROM city WHERE people < 3 OR people > 8"),
    ("SELECT name FROM city WHERE id IN (3, 8)", "SELECT name FROM city WHERE id = 8 OR id = 3"),
    ("SELECT name FROM city WHERE id IN (3)", "SELECT name FROM city WHERE 3 = id"),
    ("SELECT name FROM city WHERE NOT (people > 5 AND area < 3)",
     "SELECT name FROM city WHERE people <= 5 OR area >= 3"),
    ("SELECT name FROM city WHERE people > '5'", "SELECT name FROM city WHERE people > 5"),
    ('SELECT name FROM city WHERE name = "Rome"', "SELECT name FROM city WHERE name = 'Rome'"),
    ("SELECT name FROM city WHERE name != 'a'", "SELECT name FROM city WHERE name <> 'a'"),
    ("SELECT (area + 1) * 2 FROM city", "SELECT 2 * (1 + area) FROM city"),
    ("SELECT SUM(IIF(people > 5, 1, 0)) FROM city", "SELECT SUM(CASE WHEN people > 5 THEN 1 ELSE 0 END) FROM city"),
    ("SELECT CASE WHEN people > 5 THEN 1 END FROM city", "SELECT CASE WHEN people > 5 THEN 1 ELSE NULL END FROM city"),
    ("SELECT country_id, COUNT(*) AS n FROM city GROUP BY 1 HAVING n > 3 ORDER BY 2 ASC",
     "SELECT country_id, COUNT(1) FROM city GROUP BY country_id HAVING COUNT(*) > 3 ORDER BY COUNT(*)"),
    ("SELECT name FROM city LIMIT 5, 10", "SELECT name FROM city LIMIT 10 OFFSET 5;"),
    ("WITH t AS (SELECT name, people FROM city) SELECT t.name FROM t WHERE t.people > 3",
     "SELECT x.n FROM (SELECT name AS n, people FROM city) AS x WHERE people > 3"),
    ("SELECT name FROM city INTERSECT SELECT name FROM country",
     "SELECT name FROM country INTERSECT SELECT name FROM city"),
    ("SELECT b.name FROM person a JOIN person b ON a.boss_id = b.id",
     "SELECT p1.name FROM person p1 JOIN person p2 ON p2.boss_id = p1.id"),
    ("SELECT name FROM city WHERE EXISTS (SELECT 1 FROM person AS p WHERE p.city_id = city.id)",
     "SELECT name FROM city AS c WHERE EXISTS (SELECT 1 FROM person WHERE c.id = person.city_id)"),
    ("SELECT p.name FROM person p JOIN city USING (id)",
     "SELECT person.name FROM city JOIN person ON city.id = person.id"),
]


@pytest.mark.parametrize(("predicted", "reference"), DIFFERENT)
def test_what_is_wrong_and_what_is_missing(predicted: str, reference: str) -> None:
    check(predicted, reference)


@pytest.mark.parametrize(("predicted", "reference"), SAME)
def test_spelling_makes_no_difference(predicted: str, reference: str) -> None:
    check(predicted, reference)
    check(reference, predicted)


def test_the_order_of_the_select_list_counts_if_asked() -> None:
    assert not compare("SELECT name, area FROM city", "SELECT area, name FROM city", SCHEMA).equal
    assert compare("SELECT name, area FROM city", "SELECT area, name FROM city", SCHEMA, ordered_select=False).equal


def test_without_a_schema_an_unqualified_column_may_belong_to_any_table() -> None:
    predicted, reference = f"SELECT name {J} WHERE code = 'IT'", f"SELECT city.name {J} WHERE country.code = 'IT'"
    assert compare(predicted, reference).equal
    assert compare(predicted, reference, SCHEMA).missing == ("city.",)


def test_the_cheapest_difference_says_how_much_there_is_to_change() -> None:
    near, far = "SELECT people FROM city", "SELECT COUNT(*) FROM person WHERE born > 1900"
    assert 0 < compare(near, "SELECT name FROM city").cost < compare(far, "SELECT name FROM city").cost


@pytest.mark.parametrize(("predicted", "reference", "side", "reason"), [
    ("SELECT name FROM", "SELECT 1", "predicted", "Expected"),
    ("SELECT name FROM city WHERE", "SELECT 1", "predicted", "Where"),
    ("SELECT 'name FROM city", "SELECT 1", "predicted", ""),
    ("", "SELECT 1", "predicted", "not exactly one SELECT"),
    ("SELECT 1; SELECT 2", "SELECT 1", "predicted", "not exactly one SELECT"),
    ("DELETE FROM city", "SELECT 1", "predicted", "not exactly one SELECT"),
    ("SELECT name, FROM city", "SELECT 1", "predicted", "a comma"),
    ("SELECT (name FROM city", "SELECT 1", "predicted", ""),
    ("SELECT name FROM city GROUP BY", "SELECT 1", "predicted", "GROUP BY nothing"),
    ("SELECT CASE WHEN 1 2 END", "SELECT 1", "predicted", "THEN"),
    ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "SELECT 1", "predicted", "more than 1500"),
    ("SELECT " + "(" * 700 + "1" + ")" * 700, "SELECT 1", "predicted", "nested too deeply"),
    ("SELECT 1", "SELECT FROM city", "reference", ""),
])
def test_what_cannot_be_read_is_a_result_with_a_reason(predicted: str, reference: str, side: str, reason: str) -> None:
    found = compare(predicted, reference)
    assert isinstance(found, Unparsed) and found.side == side
    assert reason in found.reason and "\n" not in found.reason and "\x1b" not in found.reason
