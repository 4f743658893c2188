"""A sweep of two arms that takes seconds."""

from pathlib import Path

from serl.sweep.plan import read_sweep

RECIPE = Path(__file__).parents[2] / "experiments" / "recipes" / "serl_bird.yaml"
TINY = """
extends: {recipe}
data: {{root: {root}, train_from: 0, max_eval: 4}}
grounding: {{cache: {caches}/grounding, encoder: none}}
sql: {{gold_cache: {caches}/gold}}
rollout: {{questions: 2, group_size: 2}}
agent: {{max_new_tokens: 32}}
train: {{steps: 1, save_every: 1}}
eval: {{n: 0, every: 0, untrained: 0, start: false}}
tracking: {{wandb: disabled}}
"""
SWEEP = """
config: {recipe}
arms:
  plain: {{hindsight.source: none}}
  serl: {{}}
"""


def sweep_file(folder: Path, minibird: Path, root: Path | None = None):
    """The file, and a function that gives the configs of its runs in a folder of runs."""
    recipe, file = folder / "recipe.yaml", folder / "tiny.yaml"
    recipe.write_text(TINY.format(recipe=RECIPE, root=root or minibird, caches=folder / "caches"), encoding="utf-8")
    file.write_text(SWEEP.format(recipe=recipe), encoding="utf-8")
    sweep = read_sweep(file)
    return file, lambda runs, *more: [sweep.config_of(run, runs, list(more)) for run in sweep.runs]
