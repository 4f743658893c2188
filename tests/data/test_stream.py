"""Records of a stream: every format, windows that cut records anywhere, files that are broken in any way."""

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.data import stream
from serl.errors import InputError

VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) |
                      st.dictionaries(st.text(), inner), max_leaves=8)


def read(path: Path) -> list:
    return list(stream.records(path, ("a",)))


def write(folder: Path, text: str, name: str = "data.json") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@settings(max_examples=50)
@given(rows=st.lists(VALUES, max_size=6), chunk=st.integers(1, 40), indent=st.sampled_from([None, 2]),
       plain=st.booleans())
def test_an_array_is_read_as_json_reads_it_wherever_the_window_ends(tmp_path_factory, rows, chunk, indent, plain):
    path = write(tmp_path_factory.mktemp("a"), json.dumps(rows, indent=indent, ensure_ascii=plain))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "CHUNK", chunk)
        assert [value for _, value in read(path)] == rows


def test_records_of_an_array_are_known_by_the_line_that_they_begin_in(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "CHUNK", 3)
    assert read(write(tmp_path, '\n[{"a":\n1},\n\n{"a": 2}\n, 3]\n')) == [
        ("line 2", {"a": 1}), ("line 5", {"a": 2}), ("line 6", 3)]


def test_lines_are_told_from_an_array_by_what_they_begin_with(tmp_path):
    path = write(tmp_path, '{"a": 1}\n\n{"a": \n{"a": "\u2028"}\n')
    (first, second, third) = read(path)
    assert (first, third) == (("line 1", {"a": 1}), ("line 4", {"a": "\u2028"}))
    assert second[0] == "line 3" and isinstance(second[1], stream.Broken) and "not JSON" in second[1].reason
    assert read(write(tmp_path, '\ufeff \n[{"a": 1}]', "data.jsonl")) == [("line 2", {"a": 1})]


@pytest.mark.parametrize(("text", "message"), [
    ('[{"a": 1},\n{"a": 2', "line 2: not a JSON record"),
    ('[{"a": 1}\n{"a": 2}]', r"line 2: expected a comma or \], found '\{'"),
    ('[{"a": 1},', "line 1: not a JSON record"),
    ('[{"a": 1}', "the file ends where a comma or ] should be"),
    ("[1, 2] [3]", "line 1: more text behind the array's end"),
    ('[{"a": 1},]', "line 1: not a JSON record"),
])
def test_an_array_that_cannot_be_read_on_is_an_error_with_its_line(tmp_path, text, message):
    with pytest.raises(InputError, match="data.json, ") as error:
        read(write(tmp_path, text))
    assert message.replace("\\", "") in str(error.value)


def test_a_broken_record_is_not_searched_for_its_end_through_the_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "CHUNK", 100)
    monkeypatch.setattr(stream, "LONGEST", 1000)
    path = write(tmp_path, '[{"a": ' + "x" * 100_000)
    with open(path) as file:
        array = stream._Array(path, file)
        with pytest.raises(InputError, match="line 1"):
            list(array.records())
        assert len(array.text) <= 1100


def test_what_is_no_text_or_not_there_is_an_input_error(tmp_path):
    (tmp_path / "data.json").write_bytes(b'[{"a": "\xff"}]')
    with pytest.raises(InputError, match="not UTF-8"):
        read(tmp_path / "data.json")
    with pytest.raises(InputError, match="cannot read"):
        read(tmp_path / "none.json")


def test_parquet_gives_the_asked_columns_a_row_at_a_time(tmp_path, monkeypatch):
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    monkeypatch.setattr(stream, "ROWS", 2)
    path = tmp_path / "data.parquet"
    parquet.write_table(pyarrow.table({"a": ["x", None, "z"], "b": [1, 2, 3]}), path)
    assert read(path) == [("row 0", {"a": "x"}), ("row 1", {"a": None}), ("row 2", {"a": "z"})]
    with pytest.raises(InputError, match="not a Parquet file"):
        read(write(tmp_path, "[]", "other.parquet"))


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'serl\[parquet\]'"):
        read(write(tmp_path, "", "data.parquet"))


@pytest.mark.parametrize("name", ["data.json", "data.jsonl"])
def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch, name):
    """15,000 records, 4 MB: what is held at any time is a window of text and one record."""
    monkeypatch.setattr(stream, "CHUNK", 1 << 14)
    record = json.dumps({"a": "x" * 250})
    with open(tmp_path / name, "w") as file:
        file.write("[" if name == "data.json" else "")
        for number in range(15_000):
            file.write(("," if number and name == "data.json" else "") + record + "\n")
        file.write("]" if name == "data.json" else "")
    assert (tmp_path / name).stat().st_size >= 3_900_000
    tracemalloc.start()
    try:
        assert sum(1 for _ in stream.records(tmp_path / name, ())) == 15_000
        assert tracemalloc.get_traced_memory()[1] < 300_000
    finally:
        tracemalloc.stop()
