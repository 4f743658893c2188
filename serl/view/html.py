"""HTML that is escaped unless it was built here.

`tag` escapes every child that is not already `Html`, so text of a run (cells, questions, model output)
cannot become markup by being forgotten.
"""

from __future__ import annotations

import re
from html import escape as _escape

HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
VOID = frozenset({"meta", "br", "hr", "col"})


class Html(str):
    """Markup that may be written as it is: static text of this package, or the result of `tag`."""


def escape(value: object) -> Html:
    """`value` as markup: unchanged when it is `Html`, otherwise its text with `& < > " '` escaped."""
    return value if isinstance(value, Html) else Html(_escape(printable(str(value)), quote=True))


def printable(text: str) -> str:
    """`text` with the characters made visible that control, reorder or hide text, and lone surrogates replaced.

    So it is always writable as UTF-8, and nothing of it is out of sight. assets/view/dom.js does the same.

    >>> printable("a\\x00b"), printable("\\u202e")
    ('a␀b', '⟨U+202E⟩')
    """
    return HIDDEN.sub(_spelled, text).encode("utf-8", "replace").decode("utf-8")


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """One element. Attribute `cls` becomes `class`, `_` in names becomes `-`; None attributes are left out.

    >>> tag("p", "1 < 2", cls="note")
    '<p class="note">1 &lt; 2</p>'
    """
    parts = [
        f' {"class" if key == "cls" else key.replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    ]
    opening = f"<{name}{''.join(parts)}>"
    return Html(opening) if name in VOID else Html(f"{opening}{join(children)}</{name}>")


def join(children: object) -> Html:
    """The children's markup one after another; None children are skipped."""
    return Html("".join(escape(child) for child in children if child is not None))
