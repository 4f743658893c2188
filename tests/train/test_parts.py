"""What the parts of actions did: asked once an action, for samples and for traces of the teacher's view."""

from dataclasses import replace

import pytest

from serl.agent.trajectory import Trajectory
from serl.reward.panel import Reward
from serl.sql.sandbox import Sandbox
from serl.train.parts import add_parts, ask_parts
from serl.train.samples import Sample
from serl.train.traces import TraceWriter
from serl.train.warm_start import schemas
from serl.workbench import open_workbench
from tests.agent.test_env import act, environment, start


class Counting:
    """A sandbox that keeps what it is asked to run."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.dialect, self.jobs, self._sandbox = sandbox.dialect, [], sandbox

    def run_many(self, jobs):
        self.jobs += (jobs := list(jobs))
        return self._sandbox.run_many(jobs)


def played(sandbox, database, *texts: str) -> Trajectory:
    episode = start(environment())
    for text in texts:
        sql = act(episode, text)
        episode.observe(None if sql is None else sandbox.run(database, sql))
    return episode.trajectory


def test_an_action_is_asked_about_once_and_turns_without_sql_never(tmp_path_factory, minibird):
    database = next((minibird / "train_databases").glob("*/*.sqlite"))
    with Sandbox(workers=1) as plain:
        table = plain.run(database, "SELECT name FROM sqlite_master WHERE type = 'table'").rows[0][0]
        query, solution = f"SELECT 1 FROM {table} LIMIT 3", f"SELECT x FROM {table}"
        texts = (f"<sql>{query}</sql>", "no action", f"<solution>{solution}</solution>")
        samples = [Sample.of(played(plain, database, *texts), Reward(0.0, {}, False), 1.0) for _ in range(3)]
        sandbox = Counting(plain)
        known = [sample.known for sample in add_parts(sandbox, samples, [database] * 3)]
        assert len(sandbox.jobs) == 1 + 2, "one statement for the query, its table and column for the solution"
        assert all(set(each.parts) == {query, solution} for each in known) and known[0] == known[2]
        values = [finding.values for finding in known[0].parts[solution].findings]
        size = plain.run(database, f"SELECT COUNT(*) FROM {table}").rows[0][0]
        assert values == [(size,), None]
        assert [finding.values for finding in known[0].parts[query].findings] == [(size,), (3, size)]
        assert ask_parts(sandbox, []) == [] and add_parts(sandbox, [], []) == []
        with pytest.raises(ValueError):
            add_parts(sandbox, samples, [database])


def test_traces_of_the_teachers_view_hold_the_parts(small_config):
    with open_workbench(small_config(**{"hindsight.level": "exec+clauses", "sft.hindsight_share": 1.0})) as bench:
        split = bench.preparer.load_split("train")
        questions = bench.preparer.prepare(split, range(12))
        writer = TraceWriter(bench.env, bench.sandbox, bench.config, schemas(questions))
        traces = writer.write(questions, 0)
        shown = [bench.env.token_bytes.join(trace.ids).decode() for trace in traces
                 if trace.kind in ("teacher gold", "teacher wrong")]
        assert shown and all("its parts:\ntable " in text for text in shown)
        plain = TraceWriter(bench.env, bench.sandbox, replace(bench.config, hindsight=replace(
            bench.config.hindsight, level="exec")), writer.schemas)
        assert [trace.kind for trace in plain.write(questions, 0)] == [trace.kind for trace in traces]
