import argparse
import json
import shutil
from html.parser import HTMLParser

import pytest

from serl.commands import view
from serl.errors import InputError
from serl.view.answers import answer_view
from serl.view.html import escape
from serl.view.picture import write_picture
from serl.view.report import write_report
from serl.view.tokens import shade, weight_reach
from serl.view.trajectories import choose, classify


class Page(HTMLParser):
    """Elements, attributes and text of a page; checks that every element is closed in order."""

    VOID = ("meta", "br", "hr", "col")

    def __init__(self, markup):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []
        self.feed(markup)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def page(run_dir):
    return Page(write_report(run_dir).read_text(encoding="utf-8"))


def test_text_of_the_run_stays_text(run_dir):
    shown = page(run_dir)
    assert not {"script", "img", "iframe", "link", "object"} & set(shown.tags)
    assert not [name for name, _ in shown.attributes if name.startswith("on")]
    assert "<script>alert('x')</script>" in shown.text
    assert "run <b>1" in shown.text


def test_nothing_is_loaded_from_anywhere(run_dir):
    shown = page(run_dir)
    links = [value for name, value in shown.attributes if name in ("href", "src", "srcset", "action", "data")]
    assert links and all(link.startswith("#") for link in links)
    markup = (run_dir / "report.html").read_text(encoding="utf-8")
    assert "url(" not in markup and "@import" not in markup
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in shown.attributes


def test_every_section_and_number_is_there(run_dir):
    text = page(run_dir).text
    for heading in (
        "Evaluation",
        "Learning curves",
        "What hindsight did",
        "Where the time went",
        "Example trajectories",
        "Configuration",
    ):
        assert heading in text
    for shown in ("greedy", "vote@8", "oracle@8", "unseen 20 questions", "challenging", "4 min 08 s"):
        assert shown in text


def test_an_empty_run_folder_says_what_is_missing(tmp_path):
    text = page(tmp_path).text
    for sentence in ("No evaluation has", "No training step has", "No step measured", "No step recorded",
                     "No trajectories have"):
        assert sentence in text


@pytest.mark.parametrize(
    "missing", ["eval", "trajectories", "metrics.jsonl", "config.yaml", "environment.json"]
)
def test_any_one_part_may_be_missing(run_dir, missing):
    path = run_dir / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert "serl run" in page(run_dir).text


def test_examples_are_sorted_by_what_happened_in_them(trajectory):
    rows = [trajectory(1, kind) for kind in ("corrected", "correct", "wrong", "malformed")]
    assert [classify(row) for row in rows] == ["corrected", "correct", "wrong", "wrong"]
    assert [(kind.title.split()[0], len(kind.rows)) for kind in choose(rows)] == [
        ("Corrected", 1),
        ("Correct", 1),
        ("Wrong", 2),
    ]


def test_a_question_is_shown_once_and_never_one_already_shown(trajectory):
    rows = [trajectory(step, "wrong") for step in (1, 1, 2)]
    assert [row["step"] for row in choose(rows)[0].rows] == [1, 2]
    assert [row["step"] for row in choose(rows, shown=["wrong-1"])[0].rows] == [2]


def test_a_sample_lost_to_the_sandbox_is_no_example_of_a_wrong_answer(trajectory):
    assert choose([trajectory(1, "wrong") | {"reward": None}]) == []


def test_tokens_are_shaded_by_the_side_and_size_of_their_weight():
    assert [shade(weight, 0.2) for weight in (0.8, 0.9, 0.999, 1.0, 1.04, 1.2)] == [
        "down5",
        "down2",
        "down1",
        "",
        "up1",
        "up5",
    ]
    assert weight_reach([{"weights": [1.0, 0.85]}, {"weights": [1.1]}]) == pytest.approx(0.15)


def test_hovering_a_token_tells_its_weight_and_log_probs(run_dir):
    titles = [value for name, value in page(run_dir).attributes if name == "title"]
    # Token 10 of the example: ω = 1 + 0.02 · (10 − 5), student −0.1 − 0.05 · 3, teacher −0.2 + 0.03 · 10.
    assert "ω 1.100 · student -0.250 · teacher 0.100 · Δ +0.350" in titles


def test_what_the_teacher_read_is_shown_as_text(run_dir):
    assert "<hindsight>" not in page(run_dir).text
    for path in (run_dir / "trajectories").glob("*.jsonl"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for turn in (turn for row in rows for turn in row["turns"]):
            turn["hindsight_text"] = "\n<hindsight>\n<img src=x>\n</hindsight>" if turn["outcome"] else None
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    shown = page(run_dir)
    assert "<hindsight>\n<img src=x>\n</hindsight>" in shown.text and "img" not in shown.tags


def test_a_run_without_hindsight_says_so(run_dir):
    for path in (run_dir / "trajectories").glob("*.jsonl"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        lines = [json.dumps(row | {"weights": [1.0] * len(row["weights"])}) for row in rows]
        path.write_text("\n".join(lines), encoding="utf-8")
    text = page(run_dir).text
    assert "Every weight ω is 1 here" in text
    assert "Where hindsight moved" not in text


def test_null_and_bytes_are_told_from_text_that_looks_like_them():
    rows = [[None, {"hex": "00ff"}, "NULL", "x" * 500]]
    shown = answer_view({"status": "ok", "columns": list("abcd"), "rows": rows, "row_count": 1, "error": ""})
    assert "<i>NULL</i>" in shown and "<td>NULL</td>" in shown
    assert f"<i>{escape(chr(120) + chr(39) + '00ff' + chr(39))}</i>" in shown
    assert "x" * 119 + "…" in shown and "x" * 120 not in shown


def test_the_command_writes_where_it_is_told(run_dir, tmp_path, capsys):
    args = parse("view", str(run_dir), "--out", str(tmp_path / "sub" / "page.html"), "--json")
    assert args.run(args) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(tmp_path / "sub" / "page.html")}
    assert (tmp_path / "sub" / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_missing_run_folder_is_one_clear_line(tmp_path):
    args = parse("view", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="nowhere: no such folder"):
        args.run(args)


def test_the_picture_is_a_png_even_of_an_empty_run(run_dir, tmp_path):
    for folder in (run_dir, tmp_path):
        assert write_picture(folder).read_bytes().startswith(b"\x89PNG\r\n")


def parse(*argv):
    parser = argparse.ArgumentParser()
    view.add_parser(parser.add_subparsers())
    return parser.parse_args(argv)
