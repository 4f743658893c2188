"""The report in a real browser: clicked through, by keyboard alone, with hostile text, and in a hurry."""

import json

import pytest

from serl.tracking import RunFolder
from serl.view.report import write_report
from tests.view.browser import Browser
from tests.view.conftest import make_group, write_run

OPENED = "!document.querySelector('.pane').hidden"
ROWS = "document.querySelectorAll('.grid-table tbody tr[data-place]').length"


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Of three steps with four groups of two samples, and three evaluations of 60 questions."""
    return write_report(write_run(tmp_path_factory.mktemp("runs") / "run", steps=40))


@pytest.fixture(autouse=True)
def calm(browser):
    """A wide, light window; and at the end neither an error nor a breach of the page's policy nor a request."""
    browser.messages.clear()
    browser.resize(1400, 900)
    browser.theme("light")
    yield
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith(("file:", "about:"))] == []


@pytest.fixture(scope="module")
def scripts(browser, report):
    """The browser with a page open, for calls of the page's functions."""
    browser.open(report)
    return browser


def shown(browser, selector):
    return browser.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((node) => node.innerText)")


def choose(browser, label, value):
    """Choose an option of the filter with this label."""
    browser.value(f"""(() => {{
      const field = [...document.querySelectorAll('.field')].find((each) => each.innerText.startsWith({label!r}));
      const select = field.querySelector('select');
      select.value = {value!r};
      select.dispatchEvent(new Event('input', {{ bubbles: true }}));
    }})()""")


def test_a_trajectory_is_found_by_filters_and_read_turn_by_turn(browser, report):
    browser.open(report)
    assert "Execution accuracy" in browser.text("#curves") and not browser.value("!!document.querySelector('.split')")
    browser.click(".tabs a[data-view=trajectories]")
    assert browser.text("#trajectories .count") == "24 of 24"
    choose(browser, "Outcome", "corrected")
    assert browser.text("#trajectories .count") == "3 of 24" and browser.value(ROWS) == 3
    browser.click("tbody tr[data-place='1'] td.wide")
    browser.wait(OPENED)
    assert "How many drivers finished" in browser.text(".pane h3")
    assert shown(browser, ".turns h4") == ["Turn 1 sql", "Turn 2 final"]
    assert "no such column: driver.surename" in browser.text(".turns li:first-child .answer")
    assert shown(browser, ".turns li:last-child .rows th") == ["surname", "points"]
    assert "312 rows, the first 2 shown" in browser.text(".turns li:last-child .answer")
    assert browser.text(".terms") == "execution +1\nformat +0.1" and "+0.900" in browser.text(".rewards")
    assert "SELECT" in shown(browser, ".tokens .keyword") and "'MON'" in "".join(shown(browser, ".tokens .string"))
    browser.click("form.filters button[type=reset]")
    browser.wait("document.querySelector('#trajectories .count').value === '24 of 24'")


def test_tokens_are_coloured_by_their_values_which_the_pointer_reads(browser, report):
    browser.open(report, "#trajectories?trajectory=40:wrong-40:0")
    browser.wait(OPENED)
    browser.point(".tokens [data-n='4']")  # SELECT, token 10: see test_compact
    assert browser.text(".readout").split("\n") == [
        "SELECT", "Δ", "+0.350", "ω", "1.1000", "student", "−0.250", "teacher", "0.100", "sampler", "−0.250"]
    token = "document.querySelector(\".tokens [data-n='4']\").classList[0]"
    assert browser.value(token) == "up3"  # from 0.3 to 1 nat
    assert shown(browser, ".steps small")[0] == "≤ −3" and shown(browser, ".steps small")[-1] == "≥ +3"
    browser.click(".colouring input[value=weight] + span")
    browser.wait(f"{token} === 'up5'")  # the largest ω of the page
    assert "≥ 1.090" in shown(browser, ".steps small")
    browser.click(".colouring input[value=student] + span")
    browser.wait(f"{token} === 'low1'")
    browser.click(".colouring input[value=none] + span")
    browser.wait(f"{token} === undefined")


def test_student_and_teacher_stand_side_by_side(browser, report):
    browser.open(report, "#trajectories?trajectory=40:wrong-40:0")
    browser.wait(OPENED)
    browser.click(".turns summary")
    browser.wait("!!document.querySelector('.token-table')")
    assert shown(browser, ".token-table tr:nth-child(5) > *") == ["SELECT", "−0.250", "", "0.100", "+0.350", "1.1000"]
    bars = "[...document.querySelectorAll('.token-table tr:nth-child(5) i')].map((bar) => bar.style.width)"
    left, right = browser.value(bars)
    assert (left, right) == ("2.5%", "")  # 0.25 of 5 nats on its half; a positive log-prob has no bar
    browser.press("j")
    browser.wait("location.hash.includes('wrong-40%3A1')")
    browser.wait("!!document.querySelector('.token-table')")  # what was open stays open


def test_the_samples_of_a_question_side_by_side(browser, report):
    browser.open(report, "#trajectories?trajectory=40:correct-40:0")
    browser.wait(OPENED)
    assert shown(browser, ".sample") == ["0 ✓ 1", "1 ✗ 0.1"]
    browser.press("g")
    browser.wait("document.querySelectorAll('.card').length === 2")
    assert "1 of 2 right · reward 0.55 ± 0.45" in browser.text(".pane .facts")
    assert shown(browser, ".group-table tbody tr th") == ["sample 0", "sample 1"]
    assert "WHERE" not in "".join(shown(browser, ".card mark")) and "points" in "".join(shown(browser, ".card mark"))
    browser.click(".card button")
    browser.wait("!!document.querySelector('.turns')")
    browser.value("history.back()")
    browser.wait("document.querySelectorAll('.card').length === 2")


def test_everything_is_reached_by_keyboard(browser, report):
    browser.open(report, "#trajectories")
    active = "document.querySelector('.grid-table tr.active').dataset.place"
    for key in ("j", "j", "k", "ArrowDown"):
        browser.press(key)
    assert browser.value(active) == "2"
    browser.press("Enter")
    browser.wait(OPENED)
    assert browser.value("document.activeElement.matches('.pane')")
    browser.press("c")
    browser.wait("document.querySelector('[name=colouring]:checked').value === 'weight'")
    browser.press("j")
    browser.wait("document.querySelector('.grid-table tr.chosen').dataset.place === '3'")
    browser.value("document.querySelector('.tokens').focus()")
    for _ in range(3):
        browser.press("ArrowRight")
    assert browser.value("document.querySelector('.tokens .cursor').dataset.n") == "2"
    assert browser.value("!document.querySelector('.readout').hidden")
    browser.press("Escape")
    assert browser.value("document.querySelector('.pane').hidden && document.activeElement.matches('.grid-table')")
    assert browser.value("getComputedStyle(document.querySelector('.grid-table tr.active')).outlineStyle") == "solid"
    assert browser.value("document.getElementById(document.querySelector('.grid-table')"
                         f".getAttribute('aria-activedescendant')).dataset.place === {active}")
    browser.press("End")
    assert browser.value(active) == "23"
    browser.press("/")
    browser.type("malformed-39")
    assert browser.text("#trajectories .count") == "2 of 24"
    browser.press("Escape")
    browser.press("?")
    assert browser.value("document.querySelector('#keys').open")
    browser.press("Escape")
    browser.wait("!document.querySelector('#keys').open")


def test_every_control_has_a_name_and_the_table_is_a_grid(browser, report):
    browser.open(report, "#trajectories?trajectory=40:wrong-40:0")
    browser.wait(OPENED)
    nodes = [node for node in browser.call("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
    roles = [node["role"]["value"] for node in nodes if "role" in node]
    controls = [node for node in nodes if node["role"]["value"] in
                ("button", "textbox", "searchbox", "combobox", "radio", "link", "spinbutton", "grid", "toolbar")]
    assert [node for node in controls if not node["name"]["value"].strip()] == []
    assert {"grid", "row", "gridcell", "columnheader", "radio", "toolbar"} <= set(roles)


def test_the_headings_sort_and_the_address_keeps_what_is_seen(browser, report):
    browser.open(report, "#trajectories?outcome=wrong&sort=-reward")
    assert browser.text("#trajectories .count") == "18 of 24"
    assert browser.value("document.querySelector('[aria-sort=descending]').innerText") == "reward"
    browser.click("th.number button")  # by step, the last first
    assert shown(browser, "tbody tr[data-place='0'] td:first-child") == ["40"]
    browser.click("th.number button")
    assert shown(browser, "tbody tr[data-place='0'] td:first-child") == ["38"]
    assert browser.value("location.hash") == "#trajectories?outcome=wrong&sort=step"


@pytest.mark.parametrize(("sql", "kinds"), [
    ("SELECT a", "keyword name"),
    ("select 'it''s' -- why", "keyword string comment"),
    ("/* never ends", "comment"),
    ("'never ends", "string"),
    ('"Show Date" `b` [c d]', "name name name"),
    ("1.5e-3+x1<>2", "number sign name sign number"),
    ("größe = '漢'", "name sign string"),
    ("", ""),
])
def test_the_words_of_sql_are_told_apart_and_nothing_of_it_is_lost(scripts, sql, kinds):
    pieces = scripts.value(f"lexemes({json.dumps(sql)})")
    assert "".join(piece["text"] for piece in pieces) == sql
    assert " ".join(piece["kind"] for piece in pieces if piece["kind"] != "space") == kinds


@pytest.mark.parametrize(("sql", "gold", "marked"), [
    ("SELECT a FROM t WHERE b = 1", "select A from t", ["WHERE", "b", "=", "1"]),  # a word's case says nothing
    ("SELECT name FROM t", "SELECT city FROM t", ["name"]),
    ('SELECT "a" FROM t;', "SELECT a FROM t -- the same", []),
    ("SELECT 'A'", "SELECT 'a'", ["'A'"]),  # a text's does
    ("SELECT a, b", "SELECT b, a", [",", "b"]),
])
def test_what_gold_does_not_have_is_marked(scripts, sql, gold, marked):
    found = f"(p => [...differing(p, lexemes({json.dumps(gold)}))].map((n) => p[n].text))(lexemes({json.dumps(sql)}))"
    assert scripts.value(found) == marked


def test_an_evaluation_s_candidates_and_who_picked_which(browser, report):
    browser.open(report, "#selection?stage=rl&case=missed-first")
    found = browser.text("#selection .count")
    assert found.endswith("of 180") and 0 < int(found.split()[0]) < 60
    browser.click("#selection tbody tr[data-place='0'] td.wide")
    browser.wait("!document.querySelector('#selection .pane').hidden")
    picks = dict(line.split("\t", 1) for line in browser.text("#selection .picks").split("\n"))
    assert picks["first"].startswith("✗\tsample 0") and picks["oracle"].startswith("✓\tsample")
    assert shown(browser, "#selection .card > .facts strong")[0].startswith("A · ")
    assert "picked by first" in "".join(shown(browser, "#selection .chip.picker"))


def test_hostile_text_is_shown_and_does_nothing(browser, report):
    browser.open(report, "#trajectories?trajectory=40:corrected-40:0")
    browser.wait(OPENED)
    browser.press("t")
    for summary in range(browser.value("document.querySelectorAll('.pane summary').length")):
        browser.value(f"document.querySelectorAll('.pane summary')[{summary}].click()")
    text = browser.text(".pane")
    assert text.count("</script><script>hacked = 1</script><img src=x onerror=hacked=2>␀⟨U+202E⟩") >= 3
    browser.open(report, "#trajectories?trajectory=40:malformed-40:0")
    browser.wait(OPENED)
    assert "hacked" in browser.text(".pane .tokens")
    assert browser.value("typeof hacked") == "undefined" and browser.value("document.images.length") == 0


def test_both_themes_and_a_narrow_window(browser, report):
    browser.open(report, "#trajectories?trajectory=40:wrong-40:0")
    browser.wait(OPENED)
    ground = "getComputedStyle(document.body).backgroundColor"
    assert browser.value(ground) == "rgb(246, 246, 243)"
    browser.theme("dark")
    assert browser.value(ground) == "rgb(22, 22, 21)"
    browser.resize(380, 700)
    assert browser.value("getComputedStyle(document.querySelector('.list')).display") == "none"
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    browser.press("Escape")
    assert browser.value("getComputedStyle(document.querySelector('.list')).display") == "block"
    browser.press("Enter")
    browser.wait(OPENED)


def test_2000_trajectories_open_within_two_seconds(browser, tmp_path):
    folder = RunFolder(tmp_path / "run")
    for step in range(10):
        groups = [make_group(step, "corrected", str(question)) for question in range(100)]
        folder.write_trajectories(step, [row for group in groups for row in group])
    report = write_report(tmp_path / "run")
    browser.call("Performance.enable", timeDomain="threadTicks")  # the page's own time, whatever else the machine does
    browser.open(report, "#trajectories")
    assert browser.text("#trajectories .count") == "2,000 of 2,000"
    metrics = {each["name"]: each["value"] for each in browser.call("Performance.getMetrics")["metrics"]}
    assert 0 < metrics["TaskDuration"] < 2
    assert browser.value(ROWS) < 100
    browser.press("End")
    assert browser.value("document.querySelector('.grid-table tr.active').dataset.place") == "1999"
    browser.press("Enter")
    browser.wait(OPENED)
    assert "step 9 · sample 1" in browser.text(".pane")


def test_without_scripts_the_overview_is_there_and_the_rest_says_why_not(browser, report):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.call("Page.navigate", url=report.as_uri())
        browser.wait("document.readyState === 'complete' && !!document.querySelector('#curves svg')")
        assert "This part needs JavaScript" in browser.text("#trajectories")
        assert browser.value("getComputedStyle(document.querySelector('#keys-button')).display") == "none"
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_a_browser_that_cannot_unpack_is_told_so(browser, report):
    old = {"source": "delete window.DecompressionStream"}
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", **old)["identifier"]
    try:
        browser.open(report)
        assert "needs a browser of 2023" in browser.text("#trajectories")
        assert "Execution accuracy" in browser.text("#curves")
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)


def test_an_empty_run_has_a_page(browser, tmp_path):
    browser.open(write_report(tmp_path), "#trajectories")
    assert browser.text("#trajectories") == "No trajectories have been recorded yet."
