"""SQL in colours: nothing is lost, and each kind of piece is found."""

from hypothesis import given
from hypothesis import strategies as st

from serl.ask.highlight import highlight, parts


def test_pieces_have_their_kind():
    sql = "SELECT \"a\", 'it''s', 12.5 -- note\nFROM t1 where x"
    found = [(kind, text) for kind, text in parts(sql) if kind != "space"]
    assert found == [("keyword", "SELECT"), ("other", '"a"'), ("other", ","), ("string", "'it'"), ("string", "'s'"),
                     ("other", ","), ("number", "12"), ("other", "."), ("number", "5"), ("keyword", "FROM"),
                     ("other", "t1"), ("keyword", "where"), ("other", "x")]
    assert ("space", " -- note\n") in parts(sql)


@given(st.text())
def test_no_text_is_lost(sql):
    assert highlight(sql, lambda kind, piece: piece) == sql
