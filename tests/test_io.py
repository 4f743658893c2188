"""Files are whole or untouched, and wrong ones are named with their line."""

import os
from pathlib import Path

import pytest

from serl.errors import InputError
from serl.io import atomic_write_text, check_writable, read_json, read_jsonl, write_jsonl


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


def test_what_is_no_file_is_written_into_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"  # as /dev/null and /dev/stdout are
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    atomic_write_text(pipe, "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "rows.jsonl")
    for text in ("new", "newer"):
        atomic_write_text(tmp_path / "link", text)
        assert (tmp_path / "there" / "rows.jsonl").read_text() == text
    assert (tmp_path / "link").is_symlink()


def test_places_that_cannot_be_written_are_named_beforehand(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    for place in (tmp_path, file / "under a file", Path("/proc/rows.jsonl"), tmp_path / ("long" * 100)):
        with pytest.raises(InputError, match="cannot be written"):
            check_writable(place)
    check_writable(file)
    check_writable(tmp_path / "new" / "file")
    assert file.read_text() == "old"
    assert os.listdir(tmp_path / "new") == []


@pytest.mark.parametrize("content", ["[" * 100_000, "1" * 5_000])
def test_json_that_python_cannot_hold_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "rows").write_text(content)
    for read in (read_json, read_jsonl):
        with pytest.raises(InputError, match="rows.*: not valid JSON"):
            read(tmp_path / "rows")


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
