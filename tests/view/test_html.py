from serl.view.html import Html, escape, join, tag


def test_children_and_attributes_are_escaped_unless_they_are_markup():
    assert tag("p", "<b>", tag("i", "&"), title="\"'") == '<p title="&quot;&#x27;">&lt;b&gt;<i>&amp;</i></p>'


def test_an_attribute_of_none_is_left_out_and_void_elements_have_no_end():
    assert tag("td", cls=None) == "<td></td>"
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_a_plain_string_never_becomes_markup_by_joining():
    assert join(["<", Html("<br>"), None]) == "&lt;<br>"


def test_control_characters_are_shown_and_lone_surrogates_can_be_written():
    assert escape("a\x00\x1b[31m\n") == "a␀␛[31m\n"
    assert escape("\ud800").encode("utf-8") == b"?"


def test_characters_that_hide_or_turn_text_around_are_spelled_out():
    assert escape("a\u202eb\u200b\x7f") == "a⟨U+202E⟩b⟨U+200B⟩⟨U+007F⟩"
