"""Supervised fine-tuning on traces: the warm start.

    L = −(1/Z) Σ u_i log π(y_i | y_<i),   u = 1 on targets, `prompt_loss` on other tokens, Z = Σ u

Traces are written anew for every epoch (another plan, another wrong query), batched by length, and visited
in a seeded order.
"""

from collections.abc import Callable, Sequence
from random import Random

import torch
from tqdm import tqdm

from serl.config import SftConfig
from serl.errors import InputError
from serl.parallel import ALONE, Ranks
from serl.ragged import batches, pad
from serl.train.engine import TorchEngine, constant_with_warmup, cosine_with_warmup
from serl.train.traces import Trace


class SftRun:
    """Optimizer and position of a fine-tuning run; an epoch is the unit that is saved and resumed.

    Traces may be anything that `_batches` and `_step` know: see `serl.train.teach.learning`.
    """

    name = "sft"

    def __init__(self, model, config: SftConfig, traces_of: Callable[[int], list[Trace]], seed: int,
                 ranks: Ranks = ALONE) -> None:
        """`traces_of(epoch)` gives an epoch's traces, the same ones each time it is asked, and on every rank."""
        self.config, self.traces_of, self.seed, self.ranks = config, traces_of, seed, ranks
        self.epoch = self.step = 0
        self._first_epoch = self._batches(0)
        if not self._first_epoch:
            raise InputError("sft: no trace could be written for any question; are agent.max_new_tokens and "
                             "model.max_length large enough for its gold SQL?")
        total = max(1, round(len(self._first_epoch) * config.epochs))
        self.total = min(total, config.max_steps) if config.max_steps is not None else total
        schedule = (cosine_with_warmup(self.total, config.warmup) if config.schedule == "cosine"
                    else constant_with_warmup(round(config.warmup * self.total)))
        self.engine = TorchEngine(model, config.lr, config.weight_decay, config.grad_clip, schedule, ranks)

    def train(self, on_step: Callable[[int, dict[str, float]], None], on_epoch: Callable[[], None]) -> None:
        """Train the model in place to the last step; `on_epoch` is called where `state_dict` may be saved."""
        self.engine.model.train()
        with tqdm(total=self.total, initial=self.step, desc=self.name, unit="step",
                  disable=not self.ranks.leads) as bar:
            while self.step < self.total:
                batches_ = self._first_epoch if self.epoch == 0 else self._batches(self.epoch)
                for batch in batches_[: self.total - self.step]:
                    metrics = self._step(batch)
                    on_step(self.step, metrics | {"epoch": float(self.epoch)})
                    self.step += 1
                    bar.update()
                    bar.set_postfix(loss=f"{metrics['loss']:.3f}")
                self.epoch += 1
                on_epoch()

    def state_dict(self) -> dict:
        return {"epoch": self.epoch, "step": self.step, "engine": self.engine.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        self.epoch, self.step = state["epoch"], state["step"]
        self.engine.load_state_dict(state["engine"])

    def _batches(self, epoch: int) -> list[list[Trace]]:
        return epoch_batches(self.traces_of(epoch), self.config.batch_tokens, self.seed + epoch)

    def _step(self, batch: list[Trace]) -> dict[str, float]:
        own = [batch[place] for place in self.ranks.share(len(batch))]
        return sft_step(self.engine, own, self.config.prompt_loss, self.config.precision)


def epoch_batches(traces: Sequence[Trace], batch_tokens: int, seed: int) -> list[list[Trace]]:
    """Batches of similar length within `batch_tokens` padded tokens, in seeded order."""
    random = Random(seed)
    shuffled = random.sample(list(traces), len(traces))
    chunks = [[shuffled[i] for i in chunk]
              for chunk in batches([len(trace.ids) for trace in shuffled], batch_tokens)]
    random.shuffle(chunks)
    return chunks


def sft_step(engine: TorchEngine, traces: Sequence[Trace], prompt_loss: float, precision: str = "float32"
             ) -> dict[str, float]:
    """One optimizer step; returns the mean loss of the targets, and the gradient norm.

    `traces` are this rank's of the batch, possibly none; Z and the mean are those of the whole batch.
    """
    engine.zero_grad()
    loss, weight, missed, targets = (_sums(engine.model, traces, prompt_loss, precision) if traces else
                                     (None, 0.0, 0.0, 0.0))
    weight = engine.over_ranks(weight)
    if loss is not None:
        engine.backward(loss / weight)
    norm = engine.step()
    return {"loss": engine.over_ranks(missed) / engine.over_ranks(targets), "grad_norm": norm, "lr": engine.lr}


def _sums(model, traces: Sequence[Trace], prompt_loss: float, precision: str
          ) -> tuple[torch.Tensor, float, float, float]:
    """Over the tokens of some traces: Z·L and Z = Σ u; over their targets alone: −Σ log π and their number."""
    device = model.device
    # bfloat16 kernels are compiled for each shape: lengths in steps of 16 keep them few.
    ids_BL = pad([trace.ids for trace in traces], 0, torch.long, device, 16)
    real_BL = pad([[1] * len(trace.ids) for trace in traces], 0, torch.long, device, 16)
    target_BT = pad([trace.target for trace in traces], 0, torch.float32, device, 16)[:, 1:]
    weight_BT = torch.where(target_BT > 0, 1.0, prompt_loss) * real_BL[:, 1:]
    first = 0 if prompt_loss else min(trace.target.index(1) for trace in traces) - 1
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
        logits_BTV = model(input_ids=ids_BL, attention_mask=real_BL, use_cache=False,
                           logits_to_keep=ids_BL.shape[1] - first).logits[:, :-1].float()
    weight_BT, target_BT = weight_BT[:, first:], target_BT[:, first:]
    labels_BT = ids_BL[:, first + 1:]
    loss_BT = torch.nn.functional.cross_entropy(
        logits_BTV.flatten(0, 1), labels_BT.flatten(), reduction="none").view_as(labels_BT)
    return ((loss_BT * weight_BT).sum(), weight_BT.sum().item(), (loss_BT.detach() * target_BT).sum().item(),
            target_BT.sum().item())
