"""The page around the sections: head, navigation and style. Nothing is loaded from anywhere.

The page has no script, and its content security policy forbids any, so that text of a run could not run
even if an escape were missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from serl.view.html import Html, join, tag

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = Path(__file__).with_name("page.css")


def page(title: str, intro: Html, sections: Sequence[tuple[str, str, Html]]) -> str:
    """The whole document. `sections` are (anchor, heading, content)."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(STYLE.read_text(encoding="utf-8"))),
    )
    links = [tag("a", heading, href=f"#{anchor}") for anchor, heading, _ in sections]
    contents = [
        tag("section", tag("h2", heading), content, id=anchor) for anchor, heading, content in sections
    ]
    body = tag(
        "body",
        tag("header", tag("h1", title), intro, tag("nav", *links, aria_label="Sections"), cls="top"),
        tag("main", *contents),
    )
    return join([Html("<!doctype html>\n"), tag("html", head, body, lang="en"), "\n"])
