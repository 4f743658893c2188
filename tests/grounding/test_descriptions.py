"""BIRD's description files, in all the states that people leave them in."""

import pytest

from grounding.schema import Database

HEADER = "original_column_name,column_name,column_description,data_format,value_description\n"


@pytest.fixture
def described(racing):
    """Writes files of descriptions, by name, and reads the racing database with them."""

    def read(**files: bytes):
        folder = racing.parent / "database_description"
        folder.mkdir()
        for name, content in files.items():
            (folder / f"{name}.csv").write_bytes(content)
        return Database.read(racing)

    return read


def column(database, table, name):
    return database.by_name[table].by_name[name]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be"])
def test_every_encoding_is_read(described, encoding):
    database = described(circuit=(HEADER + "name,name,the café’s track,text,\n").encode(encoding))
    assert column(database, "circuit", "name").description == "the café’s track"
    assert database.warnings == ()


def test_undefined_bytes_of_windows_1252_are_replaced(described):
    database = described(circuit=HEADER.encode() + b"name,name,caf\xe9 \x81,text,\n")
    assert column(database, "circuit", "name").description == "café \ufffd"


def test_rows_of_any_length_quotes_nul_characters_and_lines_within_a_field_are_read(described):
    lines = 'name\ncountry,,"the ""home"" of\r\nthe track",text,"a, b",more,and more\n\nid,circuit id,\0,integer\n'
    database = described(circuit=(HEADER + lines).encode())
    assert column(database, "circuit", "name").description == ""
    country = column(database, "circuit", "country")
    assert (country.description, country.values_description) == ('the "home" of the track', "a, b")
    assert column(database, "circuit", "id").description == "circuit id", "column_name stands in"
    assert database.warnings == ()


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_header_tells_the_separator(described, separator):
    text = (HEADER + "status,,how it ended,text,F: finished\n").replace(",", separator)
    status = column(described(result=text.encode()), "result", "status")
    assert (status.description, status.values_description) == ("how it ended", "F: finished")


def test_names_that_differ_in_case_blanks_marks_or_composition_are_found(make_database):
    path = make_database('CREATE TABLE "Café List" ("Größe" TEXT, "a b" TEXT);')
    folder = path.parent / "database_description"
    folder.mkdir()
    text = HEADER + "GRO\u0308SSE,,how large,,\n a  B ,,both,,\n"
    (folder / "\ufeffcafe\u0301 list .csv").write_text(text, encoding="utf-8")
    assert [column.description for column in Database.read(path).tables[0].columns] == ["how large", "both"]


def test_the_same_spelling_goes_before_one_in_other_case(make_database):
    path = make_database('CREATE TABLE "É" (a TEXT); CREATE TABLE "é" (a TEXT);')
    folder = path.parent / "database_description"
    folder.mkdir()
    for name in "Éé":
        (folder / f"{name}.csv").write_text(HEADER + f"a,,of {name},,\n", encoding="utf-8")
    database = Database.read(path)
    assert [table.columns[0].description for table in database.tables] == ["of É", "of é"]


def test_files_of_no_use_are_warned_about(described):
    database = described(
        circuit=b"name;what\nid;a number\n", nowhere=HEADER.encode(), race=b"", driver=(HEADER + "id,,key,,\n").encode()
    )
    circuit, race, nowhere = database.warnings
    assert "circuit.csv: no column original_column_name" in circuit and "race.csv: no column" in race
    assert nowhere == "descriptions of nowhere: there is no such table"
    assert column(database, "driver", "id").description == "key"


def test_a_field_that_never_ends_is_a_warning(described):
    database = described(circuit=(HEADER + 'name,,"' + "word, " * 30_000).encode())
    (warning,) = database.warnings
    assert "circuit.csv: the descriptions cannot be read (field larger" in warning
