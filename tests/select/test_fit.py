"""`serl select fit`: a run's records as candidates, and the selector that is learnt from them and kept."""

import json
from dataclasses import replace

import pytest
import yaml

from serl import data
from serl.agent.dialects import Kind
from serl.agent.env import Environment
from serl.agent.token_bytes import TokenBytes
from serl.cli import main
from serl.config import load_config
from serl.reward.panel import Reward as Judged
from serl.select import rollouts
from serl.select.features import FEATURES
from serl.select.reward import FILE, LearntReward
from serl.select.rollouts import read_rollouts
from serl.select.sampled import candidate
from serl.sql.sandbox import Sandbox
from serl.task import Question
from serl.train.records import record
from serl.train.samples import Sample
from tests.models import tiny_tokenizer

WRONG = ("SELECT 1 WHERE 0", "SELECT no_such_column FROM nowhere")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def env():
    return Environment.build(tiny_tokenizer(), load_config(None, [("agent.max_turns", "3")]).agent, 4000)


def played(env, sandbox, example, sqls, logprob):
    """The trajectory of an agent that runs these queries, of which the last is its solution."""
    episode = env.start(env.prompt_ids(example, "t(a)"))
    for place, sql in enumerate(sqls):
        kind = Kind.FINAL if place == len(sqls) - 1 else Kind.SQL
        ids = env.tokenizer.encode(env.dialect.write(kind, sql), add_special_tokens=False)
        episode.act(ids, [logprob] * len(ids))
        episode.observe(sandbox.run(example.db_path, sql))
    return episode.trajectory


@pytest.fixture(scope="module")
def run(minibird, tmp_path_factory, env, sandbox):
    """A run folder of two steps: of each question gold's query is sampled twice or not at all, and what is wrong."""
    folder = tmp_path_factory.mktemp("runs") / "made"
    (folder / "trajectories").mkdir(parents=True)
    config = {"data": {"root": str(minibird)}, "grounding": {"cache": str(folder / "cache"), "encoder": "none"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    weights = folder / "checkpoints" / "step_000002"
    weights.mkdir(parents=True)
    (weights / "config.json").write_text("{}")
    piece = TokenBytes(env.tokenizer).of
    examples, trajectories = data.load("bird", minibird, "train")[:24], {}
    for step in (0, 1):
        rows = []
        for number, example in enumerate(examples[12 * step: 12 * step + 12]):
            gold = example.gold_sql
            plans = [([gold], -0.1), ([WRONG[1], gold], -0.2), ([WRONG[0]], -1.0), ([WRONG[1]], -1.0)]
            if number % 4 == 0:
                plans = [([WRONG[0]], -0.9), ([WRONG[0], WRONG[1]], -1.0), ([WRONG[0]], -0.8), ([WRONG[1]], -1.0)]
            for sample, (sqls, logprob) in enumerate(plans):
                trajectory = played(env, sandbox, example, sqls, logprob)
                reward = Judged(float(sqls[-1] == gold), {}, sqls[-1] == gold)
                question = Question(example, number, "", (), sandbox.run(example.db_path, gold))
                rows.append(record(Sample.of(trajectory, reward, 0.0), question, step, sample, 0, piece))
                trajectories[example.question_id, sample] = trajectory
        (folder / "trajectories" / f"step_{step:06d}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder, trajectories


def test_a_record_makes_the_candidate_that_its_trajectory_made(run):
    folder, trajectories = run
    groups = read_rollouts(folder, load_config(folder / "config.yaml"), [0, 1])
    assert len(groups) == 24 and all(len(group.candidates) == 4 for group in groups)
    for group in groups:
        for sample, found in enumerate(group.candidates):
            made = candidate(trajectories[group.question_id, sample])
            for name in ("sql", "status", "result_key", "result", "turns", "tokens", "revisions", "failures"):
                assert getattr(found, name) == getattr(made, name)
            assert found.sql_logprob == pytest.approx(made.sql_logprob)
            assert found.mean_logprob == pytest.approx(made.mean_logprob)
            assert (found.use is not None) == (found.answered and found.sql not in WRONG)


def test_it_learns_and_keeps_weights_table_and_plot_with_the_checkpoint(run, capsys):
    folder, _ = run
    assert main(["select", "fit", str(folder), "--json"]) == 0
    printed = capsys.readouterr()
    document, kept = json.loads(printed.out), folder / "checkpoints" / "step_000002"
    # 18 groups with two of gold's and an empty one, 6 with two empty ones.
    assert (document["questions"], document["groups"], document["candidates"]) == (24, 24, 18 * 3 + 6 * 2)
    assert document["choices"]["oracle"]["value"] == document["choices"]["reward"]["value"] == 0.75
    assert document["choices"]["first"]["value"] == 0.75 and document["calibration"]["auc"] == 1.0
    reward = LearntReward.read(kept / FILE)
    assert reward.weights == document["weights"] and list(reward.weights) == list(FEATURES)
    assert reward.about["steps"] == [0, 1] and reward.about["calibration"]["bins"]
    assert (kept / "selector.png").read_bytes().startswith(b"\x89PNG")
    assert "upper bound" in (kept / "selector.md").read_text() and "wrote" in printed.err
    before = (kept / FILE).read_bytes()
    assert main(["select", "fit", str(folder)]) == 0 and (kept / FILE).read_bytes() == before


def test_the_last_steps_alone_and_another_folder(run, capsys, tmp_path):
    folder, _ = run
    (tmp_path / "config.json").write_text("{}")
    assert main(["select", "fit", str(folder), "--last", "1", "--checkpoint", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["questions"] == 12
    assert LearntReward.read(tmp_path / FILE).about["steps"] == [1, 1]


def test_labels_are_all_that_it_takes_of_gold(run, minibird, monkeypatch):
    folder, _ = run
    config = load_config(folder / "config.yaml")
    usual = read_rollouts(folder, config, [0])
    load = data.load

    def without_gold(*arguments):
        return [replace(example, gold_sql="SELECT 42") for example in load(*arguments)]

    monkeypatch.setattr(rollouts.data, "load", without_gold)
    assert read_rollouts(folder, config, [0]) == usual


@pytest.mark.parametrize("arguments, said", [
    (["--last", "0"], "--last should be at least 1"),
    (["--checkpoint", "nowhere"], "--checkpoint nowhere: no model folder"),
    (["--grounding.mode", "oracle", "--grounding.allow_gold", "true"], "a selector would see gold"),
    (["--data.train_split", "dev"], "is not in split dev; give the run's data"),
])
def test_what_cannot_be_learnt_from_is_one_line(run, capsys, arguments, said):
    assert main(["select", "fit", str(run[0]), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and said in printed.err.splitlines()[-1]
