"""What `step.py` measures: a model with random weights, random trajectories, and the ways to update from them."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

WAYS = ("masked", "plain", "one", "ours")
TEACHERS = ("live", "periodic")
OBSERVATION = 12  # tokens between two actions


@dataclass(frozen=True)
class Shape:
    """Tokens of the prompt and of all that follows it, trajectories, actions a trajectory."""

    prompt: int
    response: int
    group: int
    turns: int = 1

    @classmethod
    def of(cls, text: str) -> "Shape":
        return cls(*map(int, text.split("/")))

    def __str__(self) -> str:
        return f"{self.prompt}/{self.response}/{self.group}" + (f"/{self.turns}" if self.turns > 1 else "")


def make_model(vocabulary: int, args: argparse.Namespace):
    """A Qwen3 with tied embeddings, as the embedded model is, and random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=vocabulary, hidden_size=args.hidden, intermediate_size=args.hidden * 11 // 4,
        num_hidden_layers=args.layers, num_attention_heads=max(2, args.hidden // 64),
        num_key_value_heads=max(1, args.hidden // 128), head_dim=64, tie_word_embeddings=True,
        max_position_embeddings=8192, bos_token_id=None, eos_token_id=2, pad_token_id=0))


def make_samples(shape: Shape, vocabulary: int) -> list:
    """A group of trajectories with advantages of both signs; actions of equal length, observations between them."""
    import torch

    from serl.agent.dialects import Action, Kind
    from serl.agent.trajectory import Trajectory, Turn
    from serl.reward.panel import Reward
    from serl.train.samples import Sample

    generator = torch.Generator().manual_seed(1)

    def ids(count: int) -> list[int]:
        return torch.randint(3, vocabulary, (count,), generator=generator).tolist()

    prompt, samples = ids(shape.prompt), []
    for number in range(shape.group):
        trajectory = Trajectory()
        trajectory.append_context(prompt)
        sampled = shape.response - OBSERVATION * (shape.turns - 1)
        for turn in range(shape.turns):
            if turn:
                trajectory.append_context(ids(OBSERVATION))
            state = (0, len(trajectory))
            size = sampled * (turn + 1) // shape.turns - sampled * turn // shape.turns
            action = trajectory.append_sampled(ids(size), [-1.0] * size, [1] * size)
            trajectory.turns.append(Turn(state, action, action, state[1] - 5, Action(Kind.SQL, ""), ""))
        samples.append(Sample.of(trajectory, Reward(0.0, {}, False), 1.0 if number % 2 else -0.7))
    return samples


def branches(samples: Sequence, vocabulary: int, size: int) -> list[tuple]:
    """For each sample, what its teacher has to score behind a hindsight of `size` tokens: one (branch, tail) a turn."""
    import torch

    from serl.hindsight.branches import Branch
    from serl.hindsight.context import Hindsight, teacher_input
    from serl.train.scoring import Tail

    generator = torch.Generator().manual_seed(2)
    out = []
    for index, sample in enumerate(samples):
        own = []
        for number, turn in enumerate(sample.trajectory.turns):
            hindsight = Hindsight(tuple(torch.randint(3, vocabulary, (size,), generator=generator).tolist()))
            own.append((Branch(index, number, turn, hindsight),
                        Tail(*teacher_input(sample.trajectory, turn, hindsight),
                             sample.trajectory.turns[0].splice_at)))
        out.append(tuple(own))
    return out


def usual_logprobs(model, samples: Sequence, mask: bool) -> list:
    """Log-probs of everything behind the prompt, by a padded batch and a log-softmax over all its logits."""
    import torch

    from serl.ragged import pad

    rows = [sample.trajectory.token_ids for sample in samples]
    first, last = samples[0].first, max(map(len, rows))
    # One column of padding: a trainer's batch is ragged, and the library drops a mask that masks nothing.
    ids_BL = pad([[*row, *[0] * mask] for row in rows], 0, torch.long, model.device)
    mask_BL = pad([[1] * len(row) + [0] * mask for row in rows], 0, torch.long, model.device) if mask else None
    logits_BRV = model(input_ids=ids_BL, attention_mask=mask_BL, use_cache=False,
                       logits_to_keep=ids_BL.shape[1] - first + 1).logits[:, : last - first]
    logp_BR = logits_BRV.log_softmax(-1).gather(-1, ids_BL[:, first: last, None])[..., 0]
    return [logp_R[: len(row) - first] for logp_R, row in zip(logp_BR, rows)]


class Bench:
    """One model and the ways to update it."""

    def __init__(self, vocabulary: int, args: argparse.Namespace) -> None:
        from serl.config import Config, HindsightConfig, TeacherConfig, TrainConfig
        from serl.train.engine import TorchEngine

        self.model = make_model(vocabulary, args)
        self.engine = TorchEngine(self.model, 0.0, 0.0, 1.0, lambda step: 1.0)
        self.config = Config(hindsight=HindsightConfig(teacher=TeacherConfig("live")),
                             train=TrainConfig(micro_tokens=1 << 30))

    def update(self, way: str, samples: Sequence) -> tuple[float, float]:
        """One update; returns its loss and gradient norm."""
        from serl.train.update import denominator, loss_of, update, weigh

        if way == "ours":
            metrics, _ = update(self.engine, samples, 0.5, self.config)
            return metrics["loss"], metrics["grad_norm"]
        total, loss_sum = denominator(samples, self.config.train.reduction), 0.0
        self.model.train()
        self.engine.zero_grad()
        size = 1 if way == "one" else len(samples)
        for start in range(0, len(samples), size):
            batch = samples[start: start + size]
            logps = usual_logprobs(self.model, batch, way == "masked")
            batch = [weigh(sample, sample.aligned(logp), 0.0, self.config.hindsight)
                     for sample, logp in zip(batch, logps)]
            loss, _ = loss_of(batch, logps, self.config, total)
            self.engine.backward(loss)
            loss_sum += loss.item()
        return loss_sum, self.engine.step()


def other_weights(model):
    """A copy of a model whose weights are all a little larger: a teacher that lags behind."""
    import copy

    import torch

    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter *= 1.01
    return other


def teachers(bench: Bench, other, samples: Sequence, size: int) -> dict[str, Callable[[], Any]]:
    """An update with a live teacher in it, and the pass of one with `other` weights; hindsight of `size` tokens."""
    from dataclasses import replace

    from serl.train.scoring import score

    asked = branches(samples, bench.model.config.vocab_size, size)
    hinted = [replace(sample, asked=own) for sample, own in zip(samples, asked)]
    tails = [tail for own in asked for _, tail in own]
    return {"live": lambda: bench.update("ours", hinted),
            "periodic": lambda: score(other, tails, 1 << 30, 1.0, share=True)}
