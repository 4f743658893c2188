"""Training and evaluation on dialogues whose turns run in order, with credit by step."""

import json
from collections.abc import Callable, Hashable
from pathlib import Path

import pytest
import torch

from serl.agent import rollout as rollouts
from serl.config import load_config
from serl.evaluate import runner
from serl.evaluate.stage import evaluate_stage
from serl.generate.interface import Generation, StopReason
from serl.hindsight.diagnostics.table import of_records
from serl.io import read_jsonl
from serl.reward.panel import Reward
from serl.tracking import RunFolder, Tracker, read_metrics, trajectory_file
from serl.train import trainer as trainers
from serl.train.credit.replay import sample_of
from serl.train.records import record
from serl.train.samples import Sample
from serl.train.traces import TraceWriter
from serl.train.trainer import Trainer
from serl.train.warm_start import schemas
from serl.workbench import workbench_of
from tests.dialogue import DIALOGUES, TOKENIZER, a, q, r, write_sparc
from tests.models import tiny_model
from tests.ranks import in_threads

E, e, M = "<exec_verify>pass</exec_verify>", "<exec_verify>no_pass</exec_verify>", "<memory_verify>pass</memory_verify>"
MTSQL = Path(__file__).parents[2] / "experiments" / "recipes" / "mtsql_r1_minibird.yaml"


class Speaker:
    """A policy that says what is written for its job: all that is right, a first query that finds nothing, nothing."""

    stepwise = True

    def __init__(self, jobs) -> None:
        self.jobs, self.pending, self.turns = jobs, [], dict.fromkeys(range(len(jobs)), 0)

    def submit(self, key: Hashable, request, max_new_tokens: int, temperature: float) -> None:
        self.pending.append(key)

    def poll(self, block: bool = True) -> list[tuple[Hashable, Generation]]:
        out = []
        for key in self.pending:
            text = self.script(key)[self.turns[key]]
            self.turns[key] += 1
            ids = TOKENIZER.encode(text, add_special_tokens=False)
            out.append((key, Generation(ids, [-0.5] * len(ids), StopReason.TAG)))
        self.pending = []
        return out

    def script(self, key: int) -> list[str]:
        job = self.jobs[key]
        gold, kind = job.example.gold_sql, 0 if job.stream is None else job.stream[-1] % 3
        return [[q(gold), E + r(gold), M + a(gold)], [q(gold + " LIMIT 0"), e + q(gold), E + a(gold)],
                [r(gold), a(gold + " LIMIT 0")]][kind]

    def cancel(self, key: Hashable) -> None:
        raise AssertionError("nobody is late")

    def release(self, session: Hashable) -> None:
        pass


def spoken(env, generator, sandbox, jobs, *rest, **options):
    return rollouts.rollout(env, Speaker(jobs), sandbox, jobs, *rest, **options)


@pytest.fixture(scope="module")
def config_of(tmp_path_factory) -> Callable:
    root = write_sparc(tmp_path_factory.mktemp("sparc") / "sparc")
    caches = tmp_path_factory.mktemp("caches")
    base = {"data.root": root, "data.train_from": 0, "grounding.cache": caches / "grounding",
            "grounding.encoder": "none", "agent.max_turns": 3, "agent.max_new_tokens": 300,
            "agent.observation_tokens": 160, "agent.order": "off", "agent.prior": "predicted",
            "sql.gold_cache": caches / "gold", "sql.workers": 1, "model.max_length": 4000,
            "rollout.questions": 3, "rollout.group_size": 3, "train.steps": 2, "train.save_every": 2,
            "train.lr": 1e-3, "train.credit": "step", "tracking.wandb": "disabled", "eval.every": 0}
    return lambda **more: load_config(MTSQL, [(key, str(value)) for key, value in (base | more).items()])


@pytest.fixture(autouse=True)
def speaks(monkeypatch) -> None:
    monkeypatch.setattr(trainers, "rollout", spoken)
    monkeypatch.setattr(runner, "rollout", spoken)


def run(config, folder, ranks, model) -> torch.Tensor:
    with workbench_of(config, model, TOKENIZER, ranks) as bench:
        Trainer(bench, RunFolder(folder), Tracker("disabled")).train()
        evaluate_stage(bench, "rl", folder / "eval", 2)
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


@pytest.fixture(scope="module")
def trained(config_of, tmp_path_factory) -> dict[int, tuple[Path, torch.Tensor]]:
    """Run folder and final weights of two steps and an evaluation, by one process and by two ranks."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainers, "rollout", spoken)
        patch.setattr(runner, "rollout", spoken)
        for size in (1, 2):
            folder, models = tmp_path_factory.mktemp(f"ranks{size}"), [tiny_model(len(TOKENIZER)) for _ in range(size)]
            weights = in_threads(size, lambda ranks, folder=folder, models=models: run(
                config_of(), folder, ranks, models[ranks.rank]))
            found[size] = folder, weights[0]
    return found


def records(folder: Path, step: int = 0) -> list[dict]:
    return read_jsonl(trajectory_file(folder, step))


def test_a_step_asks_whole_dialogues_in_order(trained):
    folder, _ = trained[1]
    for step in range(2):
        asked = [(*map(int, row["question_id"].split("/")), row["sample"]) for row in records(folder, step)]
        assert sorted(asked) == sorted((number, turn, sample) for number, queries in enumerate(DIALOGUES)
                                       for turn in range(1, len(queries) + 1) for sample in range(3))
    metrics = read_metrics(folder)
    assert len(metrics) == 2 and metrics[0]["grad_norm"] > 0
    assert {"reward/ex", "reward/em", "reward/clauses", "reward/exec_verify", "reward/memory_verify"} <= set(metrics[0])


def test_later_turns_remember_what_their_own_trajectory_answered(trained):
    folder, _ = trained[1]
    gold = DIALOGUES[0][0]
    told = {row["sample"]: [turn["observation_text"] for turn in row["turns"] if turn["kind"] == "recall"]
            for row in records(folder) if row["question_id"] == "0/2"}
    assert f"\nsql: {gold}\n" in told[0][0] and f"\nsql: {gold} LIMIT 0\n" in told[2][0]
    assert "\nlimit: 0\n" in told[2][0] and "\nlimit" not in told[0][0]


def test_advantages_of_actions_are_those_of_their_own_rewards(trained):
    """Of dialogue 0's second turn: all three totals and the five values by hand."""
    folder, _ = trained[1]
    right, late, lost = sorted((row for row in records(folder) if row["question_id"] == "0/2"),
                               key=lambda row: row["sample"])
    first = 3 / 4  # F1 of gold with LIMIT 0
    totals = [3.0, 2 + 0.8 * (first + 1) / 2 + 0.1 * (0.1 + 1) / 2, 0 + 1 + 0 + 0 + 0]
    assert [row["reward"] for row in (right, late, lost)] == pytest.approx([totals[0], totals[1], lost["reward"]])
    rewards = [row["reward"] for row in (right, late, lost)]
    mean = sum(rewards) / 3
    scale = (sum((reward - mean) ** 2 for reward in rewards) / 3) ** 0.5 + 1e-6
    assert [turn["advantage"] for turn in right["turns"]] == pytest.approx([(3.0 - mean) / scale] * 3)
    own = [2 + 0.8 * first + 0.1 * 1.1 / 2, 2 + 0.8 * 1 + 0.1 * 0.1, 2 + 0.8 * (first + 1) / 2 + 0.1 * 1]
    assert [turn["advantage"] for turn in late["turns"]] == pytest.approx([(each - mean) / scale for each in own])


def test_records_give_back_the_advantages_of_actions(trained, config_of):
    folder, _ = trained[1]
    rows = records(folder)
    with workbench_of(config_of(), tiny_model(len(TOKENIZER)), TOKENIZER) as bench:
        piece = bench.env.token_bytes.of
    for row in rows:
        again = sample_of(row, piece)
        assert list(again.steps) == [turn["advantage"] for turn in row["turns"]]
    table = of_records(rows, piece)
    taught = [row for row in rows if any(turn["advantage"] for turn in row["turns"])]
    assert len(table.advantage_BT) == len(taught) > 0
    for row, own_T in zip(taught, table.advantage_BT):
        first = row["turns"][0]["action"][0]
        for turn in row["turns"]:
            start, end = (place - first for place in turn["action"])
            assert set(own_T[start:end].tolist()) == {torch.tensor(turn["advantage"]).item()}


def test_two_ranks_do_what_one_process_does(trained):
    (one, whole), (two, parts) = trained[1], trained[2]
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-4)
    for step in range(2):
        for mine, theirs in zip(records(two, step), records(one, step), strict=True):
            for key in ("question_id", "sample", "token_ids", "reward", "advantage"):
                assert mine[key] == theirs[key]
    mine, theirs = (read_jsonl(folder / "eval" / "candidates.jsonl") for folder in (two, one))
    assert [row["question_id"] for row in theirs] == ["0/1", "0/2", "1/1", "1/2", "1/3", "2/1"]
    assert [(row["question_id"], row["greedy"]["sql"], row["greedy"]["text"]) for row in mine] == [
        (row["question_id"], row["greedy"]["sql"], row["greedy"]["text"]) for row in theirs]


def test_evaluation_runs_in_order_too(trained):
    folder, _ = trained[1]
    rows = read_jsonl(folder / "eval" / "candidates.jsonl")
    second = next(row for row in rows if row["question_id"] == "0/2")
    gold = DIALOGUES[0][0]
    assert f"sql: {gold}\n" in second["greedy"]["text"] and second["greedy"]["correct"]
    summary = json.loads((folder / "eval" / "summary.json").read_text())
    assert summary["splits"]["all"]["greedy"]["value"] == 1.0


@pytest.mark.parametrize(("limit", "turns"), [(1, {1, 2, 3}), (3, {3}), (5, {4, 5}), (6, {6})])
def test_a_sample_of_dialogues_has_whole_ones(config_of, limit, turns):
    with workbench_of(config_of(), tiny_model(len(TOKENIZER)), TOKENIZER) as bench:
        split = bench.preparer.load_split("dev", limit)
        assert len(split) in turns
        numbers = {example.interaction for example in split.examples}
        assert len(split) == sum(len(DIALOGUES[int(number)]) for number in numbers)
        later = [question for question in bench.preparer.prepare(split) if question.example.turn > 1]
        assert all(len(question.past.earlier) == question.example.turn - 1 for question in later)


def test_traces_of_a_warm_start_verify_in_order_and_learn_no_wrong_query(config_of):
    config = config_of(**{"agent.max_turns": 5, "agent.order": "remind", "agent.observation_tokens": 400,
                          "sft.hindsight_share": 0})
    with workbench_of(config, tiny_model(len(TOKENIZER)), TOKENIZER) as bench:
        questions = bench.preparer.prepare(bench.preparer.load_split("train"))
        writer, join = TraceWriter(bench.env, bench.sandbox, config, schemas(questions)), bench.env.token_bytes.join
        written = [(question, trace) for seed in range(6) for question in questions
                   for trace in writer.write([question], seed)]
    assert {trace.kind for _, trace in written} == {"check", "correct"} and len(written) > 24
    refused = set()
    for question, trace in written:
        text, gold = join(trace.ids).decode(), question.example.gold_sql
        targets = join([index for index, on in zip(trace.ids, trace.target) if on]).decode()
        assert "out of order" not in text and "malformed" not in text
        assert targets.endswith(f"{E}{r(gold)}{M}{a(gold)}") and targets.count(q(gold)) == 1
        assert f"{question.example.turn - 1} earlier turn" in text
        refused |= {verdict for verdict in (e, "<memory_verify>no_pass</memory_verify>") if verdict in targets}
        assert (trace.kind == "correct") == bool("no_pass" in targets)
    assert len(refused) == 2, "by what it returned, and by the memory"


def test_a_record_knows_what_was_refused(config_of):
    """A refused answer is no answer when the record is read back, too."""
    config = config_of(**{"agent.order": "strict", "agent.max_turns": 3})
    with workbench_of(config, tiny_model(len(TOKENIZER)), TOKENIZER) as bench:
        question = bench.preparer.prepare(bench.preparer.load_split("train"))[0]
        episode = bench.env.start(list(question.prompt_ids))
        for _ in range(2):
            ids = TOKENIZER.encode(a("SELECT 1"), add_special_tokens=False)
            episode.act(ids, [-0.5] * len(ids))
            episode.observe(None)
        episode.trajectory.stop = "length"  # there was no room for more
        sample, piece = Sample.of(episode.trajectory, Reward(0.0, {}, False), 1.0), bench.env.token_bytes.of
        row = json.loads(json.dumps(record(sample, question, 0, 0, 0, piece)))
        again = sample_of(row, piece).trajectory
    assert row["final_sql"] is again.final_sql is None
    assert [turn.refused for turn in again.turns] == ["out of order: first comes a query by exec_sql"] * 2
