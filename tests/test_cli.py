"""The command line: quick help, exit codes, one clear line for wrong input."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from serl.cli import main, parser
from serl.commands.options import check_same, parse_overrides, run_of
from serl.config import load_config, to_dict
from serl.errors import InputError, WorkFailed

ROOT = Path(__file__).parents[1]
RECIPE = str(ROOT / "experiments" / "recipes" / "serl_bird.yaml")


def fails(capsys, *argv: str) -> str:
    """Run a command that must exit with 2, and return the one line that it prints."""
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.strip().splitlines()
    return line


def test_help_loads_nothing_heavy():
    code = ("import sys; from serl.cli import parser; parser().format_help(); heavy = {'torch', 'transformers', "
            "'faiss', 'sentence_transformers', 'vllm', 'matplotlib', 'fastapi', 'uvicorn'}; "
            "print(sorted(heavy & set(sys.modules)))")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["data", "sql", "score", "sft", "train", "eval", "select", "ask", "serve", "view",
                                     "credit", "teach", "sweep", "export", "plan"])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert f"serl {command}" in capsys.readouterr().out


def test_missing_things_are_one_line_that_says_what_to_do(capsys, tmp_path):
    assert "recipes are in" in fails(capsys, "train", "--config", str(tmp_path / "none.yaml"))
    assert "--resume RUN" in fails(capsys, "train")
    assert "not a run folder" in fails(capsys, "train", "--resume", str(tmp_path))
    assert "unknown key" in fails(capsys, "train", "--config", RECIPE, "--train.rate", "1")
    (tmp_path / "file").touch()
    assert "cannot be written" in fails(capsys, "export", "--checkpoint", "embedded", "--out",
                                        str(tmp_path / "file" / "model"))
    assert "a value is missing" in fails(capsys, "train", "--config", RECIPE, "--train.lr")
    assert "no such folder" in fails(capsys, "eval", "--config", RECIPE, "--checkpoint", str(tmp_path / "model"))


def test_work_that_fails_without_a_fault_of_the_input_is_one_line_and_another_exit_code(capsys, monkeypatch):
    def fail(args):
        raise WorkFailed("no engine is left; start it again with --resume")

    monkeypatch.setattr("serl.commands.sql.run", fail)
    assert main(["sql", "--db", "any.sqlite", "SELECT 1"]) == 1
    assert capsys.readouterr().err == "serl: no engine is left; start it again with --resume\n"


def test_a_run_that_exists_is_not_overwritten(capsys, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "config.yaml").write_text("name: taken\n")
    line = fails(capsys, "train", "--config", RECIPE, "--runs", str(tmp_path), "--name", "taken")
    assert "this run exists" in line and "--resume" in line


def test_a_missing_bird_root_and_an_unreadable_model_are_named(capsys, tmp_path, minibird):
    options = ["--runs", str(tmp_path / "runs"), "--tracking.wandb", "disabled", "--eval.untrained", "0"]
    line = fails(capsys, "train", "--config", RECIPE, "--data.root", str(tmp_path / "bird"), *options)
    assert str(tmp_path / "bird") in line and not (tmp_path / "runs").exists()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{not json")
    options += ["--data.root", str(minibird)]
    line = fails(capsys, "train", "--config", RECIPE, "--model.path", str(tmp_path / "model"), "--name", "b", *options)
    assert f"model {tmp_path / 'model'}: cannot be read" in line
    line = fails(capsys, "train", "--config", RECIPE, "--model.path", "Qwen/Qwen3-4B", "--name", "c", *options)
    assert "SERL_ALLOW_DOWNLOAD" in line


def test_a_resumed_run_refuses_options_that_would_change_what_it_learns(capsys, tmp_path):
    (tmp_path / "config.yaml").write_text("name: a\n")
    assert "--train.lr: cannot change" in fails(capsys, "train", "--resume", str(tmp_path), "--train.lr", "1")
    (tmp_path / "config.yaml").write_text("rollout: {engine: vllm_server, vllm: {urls: ['http://old:8000']}}\n")
    said = fails(capsys, "train", "--resume", str(tmp_path), "--rollout.vllm.urls", "[new]")
    assert "must begin with http" in said, "servers may be elsewhere when a run goes on"
    assert "cannot change" in fails(capsys, "train", "--resume", str(tmp_path), "--rollout.vllm.dtype", "bfloat16",
                                    "--rollout.vllm.tolerance", "0.2")


def test_more_steps_are_for_runs_whose_lambda_does_not_go_by_their_number(tmp_path):
    def differ(old: str, new: str, **hindsight) -> None:
        folder, config = tmp_path / old, load_config(None, [("train.steps", new), *hindsight.items()])
        folder.mkdir()
        (folder / "config.yaml").write_text(yaml.safe_dump(to_dict(replace(config, train=replace(
            config.train, steps=int(old))))))
        check_same(folder, config, "choose another name")

    def resumed(steps: str):
        args = parser().parse_args(["train", "--resume", str(tmp_path / steps)])
        args.overrides = ["--train.steps", "60"]
        return run_of(args)[0]

    differ("40", "60")
    with pytest.raises(InputError, match="train.steps: 41, now 60"):
        differ("41", "60", **{"hindsight.schedule": "fraction"})
    with pytest.raises(InputError, match="--train.steps: cannot change in a run that goes on; only train.save_every"):
        resumed("41")
    assert resumed("40").train.steps == 60


def test_overrides_take_both_spellings_and_nothing_else():
    assert parse_overrides(["--a.b", "1", "--c=x=y", "--d", "-1"]) == [("a.b", "1"), ("c", "x=y"), ("d", "-1")]
    for wrong in (["a"], ["--a"], ["--a", "--b", "1"]):
        with pytest.raises(InputError):
            parse_overrides(wrong)


def test_unknown_arguments_of_other_commands_are_wrong_usage(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["view", "run", "--nope"])
    assert stop.value.code == 2


def test_sql_prints_the_documented_shape(capsys, tmp_path):
    import sqlite3

    with sqlite3.connect(tmp_path / "a.sqlite") as connection:
        connection.executescript("CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 'x'), (2, NULL);")
    connection.close()
    assert main(["sql", "--db", str(tmp_path / "a.sqlite"), "SELECT a, b FROM t", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"status", "columns", "rows", "row_count", "error", "ms"}
    assert (document["status"], document["columns"], document["rows"]) == ("ok", ["a", "b"], [[1, "x"], [2, None]])


def test_sql_runs_other_dialects(capsys, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT DATE '2020-01-31' AS day")
    assert main(["sql", "--db", str(tmp_path / "a.duckdb"), "--dialect", "duckdb", "FROM t", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [["2020-01-31"]]
    assert "no such file" in fails(capsys, "sql", "--db", str(tmp_path / "b"), "--dialect", "duckdb", "SELECT 1")


def test_auto_resume_refuses_a_run_with_other_settings(capsys, tmp_path):
    import yaml

    from serl.config import load_config, to_dict

    (tmp_path / "a").mkdir()
    saved = load_config(RECIPE, [("runs", str(tmp_path)), ("name", "a")])
    (tmp_path / "a" / "config.yaml").write_text(yaml.safe_dump(to_dict(saved)))
    line = fails(capsys, "train", "--config", RECIPE, "--runs", str(tmp_path), "--name", "a", "--auto-resume",
                 "--model.path", "other")
    assert "model.path: embedded, now other" in line


def test_auto_resume_goes_on_when_only_harmless_settings_differ(tmp_path):
    from argparse import Namespace

    import yaml

    from serl.commands.options import run_of
    from serl.config import load_config, to_dict

    (tmp_path / "a").mkdir()
    saved = load_config(RECIPE, [("runs", str(tmp_path)), ("name", "a"), ("eval.untrained", "7")])
    (tmp_path / "a" / "config.yaml").write_text(yaml.safe_dump(to_dict(saved)))
    args = Namespace(command="train", config=Path(RECIPE), resume=None, auto_resume=True,
                     overrides=["--runs", str(tmp_path), "--name", "a", "--train.steps", "30"])
    config, folder = run_of(args)
    assert (config.train.steps, folder) == (30, tmp_path / "a")
