import argparse
import base64
import hashlib
import json
import shutil
from html.parser import HTMLParser

import pytest

from serl.commands import view
from serl.errors import InputError
from serl.view.page import ASSETS, SCRIPTS
from serl.view.picture import write_picture
from serl.view.report import write_report


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
    assert not {"img", "iframe", "link", "object"} & set(shown.tags)
    assert not [name for name, _ in shown.attributes if name.startswith("on")]
    assert "<script>hacked = 1</script>" in shown.text
    assert "run <b>1" in shown.text


def test_only_the_scripts_of_the_page_may_run(run_dir):
    shown = page(run_dir)
    policy = next(value for name, value in shown.attributes if name == "content" and "default-src" in value)
    own = [base64.b64encode(hashlib.sha256((ASSETS / name).read_bytes()).digest()).decode() for name in SCRIPTS]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; script-src " + " ".join(
        f"'sha256-{each}'" for each in own)
    assert sorted(path.name for path in ASSETS.glob("*.js")) == sorted(SCRIPTS)
    data = [value for name, value in shown.attributes if name == "type" and value == "application/gzip"]
    assert shown.tags.count("script") == len(SCRIPTS) + len(data)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_from_text_or_asks_the_network(name):
    script = (ASSETS / name).read_text(encoding="utf-8")
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "</"):
        assert forbidden not in script


def test_nothing_is_loaded_from_anywhere(run_dir):
    shown = page(run_dir)
    links = [value for name, value in shown.attributes if name in ("href", "src", "srcset", "action", "data")]
    assert links and all(link.startswith("#") for link in links)
    markup = (run_dir / "report.html").read_text(encoding="utf-8")
    assert "url(" not in markup and "@import" not in markup


def test_every_section_and_number_is_there(run_dir):
    text = page(run_dir).text
    for heading in (
        "Evaluation",
        "Learning curves",
        "What hindsight did",
        "Where the time went",
        "Trajectories (24)",
        "Selection (180)",
        "Configuration",
    ):
        assert heading in text
    for shown in ("greedy", "vote@8", "oracle@8", "unseen 20 questions", "challenging", "4 min 08 s"):
        assert shown in text


def test_an_empty_run_folder_says_what_is_missing(tmp_path):
    text = page(tmp_path).text
    for sentence in ("No evaluation has", "No training step has", "No step measured", "No step recorded",
                     "No trajectories have", "No evaluation has drawn"):
        assert sentence in text


@pytest.mark.parametrize(
    "missing", ["eval", "trajectories", "metrics.jsonl", "config.yaml", "environment.json"]
)
def test_any_one_part_may_be_missing(run_dir, missing):
    path = run_dir / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert "serl run" in page(run_dir).text


def test_what_is_not_all_is_said(run_dir):
    whole = page(run_dir).text
    assert "Trajectories (24)" in whole and "Selection (180)" in whole and "recorded trajectories" not in whole
    args = parse("view", str(run_dir), "--step", "39")
    assert args.run(args) == 0
    text = Page((run_dir / "report.html").read_text(encoding="utf-8")).text
    assert "8 of 24 recorded trajectories are here, of steps 39." in text


def test_the_command_writes_where_it_is_told(run_dir, tmp_path, capsys):
    args = parse("view", str(run_dir), "--out", str(tmp_path / "sub" / "page.html"), "--json")
    assert args.run(args) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(tmp_path / "sub" / "page.html")}
    assert (tmp_path / "sub" / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_how_many_is_checked(run_dir):
    args = parse("view", str(run_dir), "--trajectories", "0")
    with pytest.raises(InputError, match="--trajectories should be at least 1"):
        args.run(args)


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
