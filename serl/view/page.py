"""The page around the sections: head, tabs, style and script. Nothing is loaded from anywhere.

Its content security policy names its own scripts by their hashes and forbids any other, so that text of a run could
not run even if an escape were missed.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from serl.view.html import Html, join, tag
from serl.view.packed import Archive

ASSETS = Path(__file__).parents[1] / "assets" / "view"
STYLES = ("page.css", "explorer.css")
SCRIPTS = ("dom.js", "data.js", "sql.js", "answer.js", "colour.js", "tokens.js", "grid.js", "filters.js", "explorer.js",
           "trajectory.js", "group.js", "selection.js", "app.js")
"""In the order in which they are run: each uses what those before it define."""

KEYS = (
    ("j k", "next and previous row; what is open follows"),
    ("↑ ↓", "the same, when the table has the focus"),
    ("Enter", "open the row"),
    ("Esc", "close what is open"),
    ("← →", "step through tokens, when they have the focus"),
    ("c", "colour tokens by the next value"),
    ("g", "the samples of the question"),
    ("t", "back to the trajectory"),
    ("/", "search"),
    ("?", "these keys"),
)


def page(title: str, intro: Html, sections: Sequence[tuple[str, str, Html]],
         explorers: Sequence[tuple[str, str, Html]] = (), index: Mapping[str, Any] | None = None,
         archives: Sequence[Archive] = ()) -> str:
    """The whole document. `sections` of the overview, and `explorers`, are (anchor, heading, content).

    `index` and `archives` are the data of the explorers, whose content stands there until the script has run.
    """
    scripts = [Html((ASSETS / name).read_text(encoding="utf-8")) for name in SCRIPTS]
    styles = [Html((ASSETS / name).read_text(encoding="utf-8")) for name in STYLES]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        *(tag("style", style) for style in styles),
    )
    data = [block for archive in (Archive("index", [index]), *archives) for block in archive.elements()]
    body = tag(
        "body",
        tag("header", tag("h1", title), intro, _tabs(explorers), cls="top"),
        tag("main", _contents(sections), *(_section(*section) for section in sections), id="overview"),
        *(tag("section", content, id=anchor, aria_label=heading, cls="explorer")
          for anchor, heading, content in explorers),
        _keys(), *data, *(tag("script", script) for script in scripts),
    )
    return join([Html("<!doctype html>\n"), tag("html", head, body, lang="en"), "\n"])


def _policy(scripts: Sequence[str]) -> str:
    hashes = [base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii") for script in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}"


def _tabs(explorers: Sequence[tuple[str, str, Html]]) -> Html:
    tabs = [("overview", "Overview"), *((anchor, heading) for anchor, heading, _ in explorers)]
    keys = tag("button", "Keys ", tag("kbd", "?"), type="button", id="keys-button", cls="keys needs-script")
    return tag("nav", *(tag("a", heading, href=f"#{anchor}", data_view=anchor) for anchor, heading in tabs), keys,
               cls="tabs", aria_label="Views")


def _contents(sections: Sequence[tuple[str, str, Html]]) -> Html:
    return tag("nav", *(tag("a", heading, href=f"#{anchor}") for anchor, heading, _ in sections), aria_label="Sections")


def _section(anchor: str, heading: str, content: Html) -> Html:
    return tag("section", tag("h2", heading), content, id=anchor)


def _keys() -> Html:
    entries = [part for keys, meaning in KEYS
               for part in (tag("dt", *(tag("kbd", key) for key in keys.split())), tag("dd", meaning))]
    form = tag("form", tag("button", "Close"), method="dialog")
    return tag("dialog", tag("h2", "Keys"), tag("dl", *entries), form, id="keys", aria_label="Keys")
