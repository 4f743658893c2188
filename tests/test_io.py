"""Files are whole or untouched, and wrong ones are named with their line."""

import os
from pathlib import Path

import pytest

from serl.errors import InputError
from serl.io import atomic_write_text, read_json, read_jsonl, write_jsonl


def test_jsonl_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "rows.jsonl"
    write_jsonl(path, [{"a": "Öl\u2028\n"}, [1, None]])
    assert read_jsonl(path) == [{"a": "Öl\u2028\n"}, [1, None]]
    assert os.listdir(path.parent) == ["rows.jsonl"]


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [1])
    with pytest.raises(TypeError):
        write_jsonl(path, [2, object()])
    with pytest.raises(UnicodeEncodeError):
        atomic_write_text(path, "\ud800")
    assert path.read_text() == "1\n"
    assert os.listdir(tmp_path) == ["rows.jsonl"]


def test_failed_replace_removes_its_part(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        atomic_write_text(tmp_path / "folder", "a file cannot replace a folder")
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b'{"a": 1}\n\n{"a": \n', "line 3: not valid JSON"), (b'1\n"\xff"\n', "line 2: not valid UTF-8")],
)
def test_wrong_jsonl_is_named_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"rows.jsonl, {message}"):
        read_jsonl(path)


def test_wrong_json_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text('{"a": 1,\n "b": }')
    with pytest.raises(InputError, match=r"data.json, line 2: not valid JSON"):
        read_json(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.json: cannot be read \(No such file or directory\)"):
        read_json(tmp_path / "none.json")
