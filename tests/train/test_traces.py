"""Warm-start traces: real answers, targets only on what the policy should learn, the teacher's view included."""

import copy
from dataclasses import replace

import pytest
import torch

from serl.errors import InputError
from serl.train.sft import SftRun, epoch_batches, sft_step
from serl.train.traces import Trace, TraceWriter
from serl.train.warm_start import schemas
from serl.workbench import open_workbench
from tests.models import tiny_model


@pytest.fixture(scope="module")
def written(small_config):
    """Workbench, questions and many traces of them."""
    with open_workbench(small_config()) as bench:
        split = bench.preparer.load_split("train")
        questions = bench.preparer.prepare(split, range(len(split.examples)))
        writer = TraceWriter(bench.env, bench.sandbox, bench.config, schemas(questions))
        pairs = [(q, trace) for seed in range(8) for q in questions for trace in writer.write([q], seed)]
        yield bench, questions, writer, pairs


def text(bench, ids) -> str:
    return bench.env.token_bytes.join(ids).decode()


def test_every_kind_of_trace_is_written(written):
    kinds = {trace.kind for _, trace in written[3]}
    assert kinds == {"direct", "check", "probe", "correct", "teacher empty", "teacher gold", "teacher wrong"}


def test_targets_are_the_gold_solution_and_never_a_wrong_query(written):
    bench, _, _, traces = written
    for question, trace in traces:
        target = text(bench, [index for index, on in zip(trace.ids, trace.target) if on])
        solution = f"<solution>{question.example.gold_sql}</solution>"
        if trace.kind in ("direct", "correct") or trace.kind.startswith("teacher"):
            assert target == solution
        else:
            assert target.endswith(solution) and target.startswith("<sql>")


def test_the_database_shows_most_wrong_queries_to_be_wrong(written):
    bench, _, _, traces = written
    answers = [text(bench, trace.ids).split("<observation>")[1] for _, trace in traces if trace.kind == "correct"]
    shown = [answer.strip().startswith(("error", "0 rows")) or answer.split("\n")[3] in ("0", "NULL")
             for answer in answers]
    assert 0.7 < sum(shown) / len(shown) < 0.97


def test_traces_begin_with_the_policys_own_prompt(written):
    _, _, _, traces = written
    for question, trace in traces:
        if not trace.kind.startswith("teacher"):
            assert tuple(trace.ids[: len(question.prompt_ids)]) == question.prompt_ids


def test_hindsight_appears_in_the_teachers_view_only(written):
    bench, _, _, traces = written
    for _, trace in traces:
        assert ("<hindsight>" in text(bench, trace.ids)) == trace.kind.startswith("teacher")


def test_the_same_seed_writes_the_same_traces(written):
    _, questions, writer, _ = written
    assert writer.write(questions[:6], 5) == writer.write(questions[:6], 5)
    assert writer.write(questions, 5) != writer.write(questions, 6)


TRACES = [Trace("direct", [5, 6, 7, 8, 9], [0, 0, 0, 1, 1]), Trace("direct", [5, 9, 4], [0, 1, 1]),
          Trace("direct", [7, 7, 7, 7, 3, 4], [0, 0, 0, 0, 1, 1])]


class FakeEngine:
    """Collects the gradient instead of applying it."""

    def __init__(self, model) -> None:
        self.model, self.lr = model, 0.0

    def zero_grad(self) -> None:
        self.model.zero_grad()

    def backward(self, loss) -> None:
        loss.backward()

    def step(self) -> float:
        return 1.0

    def over_ranks(self, value: float) -> float:
        return value


def test_the_loss_is_the_mean_over_targets_alone():
    model = tiny_model(16)
    metrics = sft_step(FakeEngine(model), TRACES, prompt_loss=0.0)
    losses = []
    for trace in TRACES:
        logprobs = torch.log_softmax(model(torch.tensor([trace.ids])).logits[0], -1)
        losses += [-logprobs[i - 1, trace.ids[i]].item() for i, on in enumerate(trace.target) if on]
    assert metrics["loss"] == pytest.approx(sum(losses) / len(losses), abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_resumed_fine_tuning_ends_with_the_same_weights(small_config, dtype):
    config = small_config(**{"sft.epochs": 3, "sft.batch_tokens": 6}).sft
    whole, resumed, saved = tiny_model(16, dtype=dtype), tiny_model(16, seed=1, dtype=dtype), []

    def save() -> None:
        saved.append(copy.deepcopy((whole.state_dict(), run.state_dict())))

    run = SftRun(whole, config, lambda epoch: TRACES, 0)
    run.train(lambda *_: None, save)
    weights, state = saved[0]
    assert (state["epoch"], state["step"], run.step) == (1, 3, 9)
    resumed.load_state_dict(weights)
    again = SftRun(resumed, config, lambda epoch: TRACES, 0)
    again.load_state_dict(state)
    steps = []
    again.train(lambda step, metrics: steps.append(step), lambda: None)
    assert steps == [3, 4, 5, 6, 7, 8]
    assert all(torch.equal(left, right) for left, right in zip(whole.parameters(), resumed.parameters()))


def test_epoch_batches_hold_every_trace_once():
    batches = epoch_batches(TRACES, 8, 0)
    assert sorted(tuple(trace.ids) for batch in batches for trace in batch) == sorted(tuple(t.ids) for t in TRACES)


def test_a_trace_that_the_policy_could_not_write_is_dropped(written, small_config):
    bench, questions, _, _ = written
    short = small_config(**{"agent.max_new_tokens": 8})
    writer = TraceWriter(bench.env, bench.sandbox, short, schemas(questions))
    assert writer.write(questions, 0) == []
    tight = replace(bench.env, max_length=len(questions[0].prompt_ids) + 80)
    writer = TraceWriter(tight, bench.sandbox, bench.config, schemas(questions))
    kinds = {trace.kind for seed in range(40) for trace in writer.write(questions[:1], seed)}
    assert "direct" in kinds and not kinds & {"check", "probe", "correct"}


def test_no_traces_at_all_is_an_error(small_config):
    with pytest.raises(InputError, match="no trace"):
        SftRun(tiny_model(16), small_config().sft, lambda epoch: [], 0)
