"""Documents survive their way into the page's blocks and out again."""

import base64
import gzip
import json
import math

from serl.view import packed
from serl.view.packed import Archive


def unpacked(block: str) -> list:
    return json.loads(gzip.decompress(base64.b64decode(block)))


def test_documents_come_back_whatever_text_they_hold():
    documents = [{"text": "</script>\x00\ud800 ‮ü漢"}, [1, None, -0.5, True], "x"]
    archive = Archive("a", documents)
    archive.close()
    assert unpacked(archive.blocks[0]) == documents and archive.starts == [0]
    assert set(archive.blocks[0]) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")


def test_a_block_is_closed_when_it_is_long_enough_and_starts_say_where_it_begins(monkeypatch):
    monkeypatch.setattr(packed, "BLOCK_CHARS", 10)
    archive = Archive("a", ["12345", "12345", "12345", "1234567890", "1"])
    archive.close()
    assert [unpacked(block) for block in archive.blocks] == [["12345", "12345"], ["12345", "1234567890"], ["1"]]
    assert archive.starts == [0, 2, 4]
    assert ['id="a-0"' in archive.elements()[0], 'id="a-2"' in archive.elements()[2]] == [True, True]


def test_numbers_that_json_does_not_have_are_null():
    archive = Archive("a", [{"x": [math.nan, math.inf, 1.0]}])
    archive.close()
    assert unpacked(archive.blocks[0]) == [{"x": [None, None, 1.0]}]


def test_the_same_documents_make_the_same_bytes():
    blocks = [Archive("a", [{"x": 1}]).elements() for _ in range(2)]
    assert blocks[0] == blocks[1] and Archive("a").elements() == []
