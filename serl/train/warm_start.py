"""The warm start from end to end: model (from scratch if asked), traces, SFT, saved model folder."""

from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

from tqdm import tqdm

from grounding import Database, render_schema
from serl import embedded
from serl import model as models
from serl.agent.prompts import messages
from serl.config import Config, to_dict
from serl.parallel import Ranks, open_ranks
from serl.task import Question, Split, load_examples, make_grounder, requests_of, training_part
from serl.tracking import RunFolder, tracking
from serl.train import checkpoint
from serl.train.mutate import Schema
from serl.train.sft import SftRun
from serl.train.traces import Trace, TraceWriter
from serl.workbench import Workbench, workbench_of

SCRATCH = "scratch"
PREPARE_CHUNK = 256
TOKENIZER_QUESTIONS = 8_000  # a sample large enough for its merges


def warm_start(config: Config, folder: Path, out: Path, save_dtype: str) -> dict[str, Any]:
    """Fine-tune and write the model to `out`, going on from the last epoch saved in `folder`.

    Returns the steps, and how many traces of each kind were written. Of several ranks the first one writes: the traces
    for all, which learn from them together, and every file.
    """
    with open_ranks(config.engine.timeout_s) as ranks:
        return _warm_start(config, folder, out, save_dtype, ranks)


def _warm_start(config: Config, folder: Path, out: Path, save_dtype: str, ranks: Ranks) -> dict[str, Any]:
    import torch

    if ranks.leads and (folder / "config.yaml").exists():  # before another process removes what is to be read
        RunFolder(folder).claim()
    newest = ranks.first(lambda: checkpoint.latest(folder / "checkpoints"))
    model, tokenizer = _starting_model(config, newest, ranks)
    kinds: Counter[str] = Counter()
    with workbench_of(config, model, tokenizer, ranks) as bench:
        bench.preparer.load_split(config.data.train_split)
        questions = all_questions(bench) if ranks.leads else []
        writer = TraceWriter(bench.env, bench.sandbox, config, schemas(questions))

        def write(epoch: int) -> list[Trace]:
            traces = [trace for copy in range(config.sft.traces_per_question)
                      for trace in writer.write(questions, seed=1000 * (1000 * config.seed + epoch) + copy)]
            kinds.update(trace.kind for trace in traces)
            return traces

        sft = SftRun(model, config.sft, lambda epoch: ranks.first(lambda: write(epoch)), config.seed, ranks)
        if newest is not None:
            sft.load_state_dict(checkpoint.load_state(newest))
        run = RunFolder(folder)  # only now: a mistyped path leaves no run behind
        if ranks.leads:
            run.claim()
            run.write_config(to_dict(config))
            run.write_environment()
            run.truncate_metrics(sft.step)
        with tracking(config, folder) if ranks.leads else nullcontext() as tracker:

            def on_step(step: int, metrics: dict[str, float]) -> None:
                if ranks.leads:
                    run.append_metrics(step, metrics)
                    tracker.log(step, metrics)

            sft.train(on_step, lambda: ranks.first(lambda: checkpoint.save(
                folder / "checkpoints", sft.step, model, tokenizer, sft.state_dict(), keep=1)))
    if ranks.leads:
        kept = [path for path in out.glob("*") if path.suffix in (".md", ".yaml")] if out.is_dir() else []
        card = {path.name: path.read_text(encoding="utf-8") for path in kept}  # and how it is asked
        checkpoint.replace_model(out, model.to(getattr(torch, save_dtype)), tokenizer, card)
    return {"model": str(out), "steps": sft.step, "traces": dict(sorted(kinds.items()))}


def _starting_model(config: Config, newest: Path | None, ranks: Ranks):
    import torch

    if newest is not None:
        return models.load(str(newest), config.model.dtype, config.model.lora, config.seed)
    if config.model.path != SCRATCH:
        return models.load(config.model.path, config.model.dtype, config.model.lora, config.seed)
    tokenizer = ranks.first(lambda: embedded.make_tokenizer(_texts(config)))
    return embedded.make_model(tokenizer, config.seed).to(getattr(torch, config.model.dtype)), tokenizer


def all_questions(bench: Workbench) -> list[Question]:
    """Every training question, prepared, with a progress bar."""
    split: Split = bench.preparer.load_split(bench.config.data.train_split, bench.config.data.max_train)
    out: list[Question] = []
    with tqdm(total=len(split), desc="ground", unit="question") as bar:
        for start in range(0, len(split), PREPARE_CHUNK):
            chunk = range(start, min(start + PREPARE_CHUNK, len(split)))
            out += bench.preparer.prepare(split, chunk)
            bar.update(len(chunk))
    return out


def schemas(questions: list[Question]) -> dict[str, Schema]:
    """Column names by table, of every database that the questions are about."""
    paths = {question.example.db_id: question.example.db_path for question in questions}
    databases = {db_id: Database.read(path) for db_id, path in paths.items()}
    return {db_id: {table.name: [column.name for column in table.columns] for table in database.tables}
            for db_id, database in databases.items()}


def _texts(config: Config) -> Iterator[str]:
    """What the tokenizer is trained on: prompts with their schemas, and gold SQL, of a sample of the questions."""
    examples = load_examples(config, config.data.train_split)
    examples = [examples[place] for place in training_part(examples, config)]
    examples = Random(config.seed).sample(examples, min(TOKENIZER_QUESTIONS, len(examples)))
    grounder = make_grounder(config)
    for example, grounded in zip(examples, grounder.ground_many(requests_of(examples, config))):
        schema = render_schema(grounded, config.grounding.style)
        for message in messages(example, schema, config.agent):
            yield message["content"]
        yield example.gold_sql
