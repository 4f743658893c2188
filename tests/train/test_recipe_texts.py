"""What the default recipe shows its policy, pinned: the embedded model was trained on these very tokens.

A change of this hash is a change of every prompt or observation: the embedded model then has to be trained anew.
"""

import hashlib

from serl.sql.outcome import Outcome, Status
from serl.workbench import open_workbench
from tests.agent.test_env import act_in

MISTAKES = ("<sql>SELECT nothing FROM nowhere</sql>", "SELECT 1", "<think>a", "<sql>\u00e9", "<solution>")
PINNED = "c51293230c687cb4"


def test_prompts_and_observations_of_the_recipe_are_what_the_embedded_model_was_trained_on(small_config):
    """Prompts of all training questions; what the database answers to their gold, and to what is wrong or malformed."""
    config = small_config()
    digest = hashlib.sha256()
    with open_workbench(config) as bench:
        split = bench.preparer.load_split("train")
        questions = bench.preparer.prepare(split)
        assert len(questions) > 40
        for number, question in enumerate(questions):
            episode = bench.env.start(list(question.prompt_ids))
            queries = [f"<sql>{question.example.gold_sql}</sql>", MISTAKES[number % len(MISTAKES)]]
            for text in queries:
                sql = act_in(bench.env, episode, text)
                episode.observe(None if sql is None else bench.sandbox.run(question.example.db_path, sql))
            digest.update(bench.env.token_bytes.join(episode.trajectory.token_ids))
            digest.update(repr(episode.trajectory.token_ids).encode())
        wide = Outcome(Status.OK, tuple(f"column {i}" for i in range(40)), (tuple(range(40)),) * 9, 9)
        large = Outcome(Status.TOO_LARGE, ("a", "b"), ((1, None), (2.5, b"x")), 100_000)
        for outcome in (wide, large, Outcome(Status.EMPTY, ("a",)), Outcome(Status.TIMEOUT, error="stopped after 5 s")):
            episode = bench.env.start(list(questions[0].prompt_ids))
            act_in(bench.env, episode, "<sql>SELECT 1</sql>")
            episode.observe(outcome)
            digest.update(repr(episode.trajectory.token_ids).encode())
    assert digest.hexdigest()[:16] == PINNED
