"""Reasoning written from gold: true of it, complete, the same for the same seed, in its place in a trace."""

import json
import re
from dataclasses import replace
from random import Random

import pytest
import sqlglot
from sqlglot import exp

from serl.errors import InputError
from serl.train.reasoning import reasoning
from serl.train.traces import TraceWriter
from serl.train.warm_start import schemas
from serl.workbench import open_workbench


class First(Random):
    """Takes the first wording of each, and what is asked for before the rest."""

    def choice(self, wordings):
        return wordings[0]

    def random(self) -> float:
        return 0.0


@pytest.mark.parametrize(("sql", "text"), [
    ("SELECT name, city FROM stadium WHERE city = 'Rome' AND id NOT IN (1, 2)",
     "Find name and city. It is in stadium. Only where city = 'Rome' and id NOT IN (1, 2). The schema shows 'Rome'."),
    ("SELECT COUNT(*), AVG(b) AS mean FROM t WHERE a IS NOT NULL GROUP BY c HAVING COUNT(DISTINCT d) > 2",
     "Find the number of rows and the average of b as mean. It is in t. Only where a IS NOT NULL. One for each c. Keep "
     "groups with count(DISTINCT d) > 2."),
    ("SELECT DISTINCT b.x FROM a LEFT JOIN b ON a.id = b.a_id JOIN c USING (k) ORDER BY SUM(a.y) DESC, b.x LIMIT 3",
     "Find b.x. Take a, left joined with b on a.id = b.a_id, joined with c using k. Each one once. Order by the total "
     "of a.y, high to low; then b.x, low to high. Take the first 3."),
    ("SELECT name FROM t WHERE id NOT IN (SELECT t_id FROM u WHERE n > (SELECT AVG(n) FROM u))",
     "Call this part2: Find the average of n. It is in u. Call this part1: Find t_id. It is in u. Only where n > "
     "part2. Find name. It is in t. Only where id NOT IN part1."),
    ("SELECT a FROM t WHERE b = 1 EXCEPT SELECT a FROM u",
     "Call this part1: Find a. It is in t. Only where b = 1. Call this part2: Find a. It is in u. Keep what is in "
     "part1 but not in part2."),
    ("SELECT a FROM t UNION ALL SELECT a FROM u ORDER BY a LIMIT 2 OFFSET 1",
     "Call this part1: Find a. It is in t. Call this part2: Find a. It is in u. Take what is in part1 or in part2. "
     "Repeats stay. Order by a, low to high. Take the first 2 after 1."),
    ("WITH q AS (SELECT a, MAX(b) AS m FROM t GROUP BY a) SELECT * FROM q JOIN (SELECT 1 AS a) AS z ON z.a = q.a",
     "Call this q: Find a and the highest b as m. It is in t. One for each a. Call this part1: Find 1 as a. Find all "
     "columns. Take q, joined with part1 AS z on z.a = q.a."),
    ("SELECT SUM(CASE WHEN x = 1 THEN 1 ELSE 0 END) - MIN(y) FROM t",
     "Find sum(CASE WHEN x = 1 THEN 1 ELSE 0 END) - min(y). It is in t."),
])
def test_what_is_written_of_a_query(sql, text):
    assert reasoning(sql, "stadium(city text = 'Rome')", First(0)) == text


@pytest.mark.parametrize("sql", ["SELECT FROM WHERE", "DROP TABLE t", "", "SELECT 'a"])
def test_what_is_no_query_has_no_reasoning(sql):
    assert reasoning(sql, "", Random(0)) is None


def test_it_names_what_gold_uses_and_nothing_else(minibird):
    """Every column, table and literal of gold, in as many words; and no name that gold does not have."""
    golds = {record["SQL"] for record in json.loads((minibird / "train.json").read_text())}
    assert len(golds) > 40
    for seed, sql in enumerate(sorted(golds)):
        tree, text = sqlglot.parse_one(sql, dialect="sqlite"), reasoning(sql, "", Random(seed))
        used = {node.sql(dialect="sqlite") for kind in (exp.Column, exp.Table) for node in tree.find_all(kind)}
        used |= {node.sql(dialect="sqlite") for node in tree.find_all(exp.Literal)}
        assert all(name in text for name in used), (sql, text)
        named = set(re.findall(r"\b\w+\.\w+\b", re.sub(r"'[^']*'", "", text)))
        assert all(name in sql or re.fullmatch(r"[\d.]+", name) for name in named), (sql, text)


def test_the_same_seed_writes_the_same_and_other_seeds_other_wordings():
    sql = "SELECT a FROM t JOIN u ON t.id = u.id WHERE b = 'x' GROUP BY c"
    texts = [reasoning(sql, "", Random(seed)) for seed in range(40)]
    assert texts == [reasoning(sql, "", Random(seed)) for seed in range(40)]
    assert len(set(texts)) > 30


@pytest.fixture(scope="module")
def bench(small_config):
    options = {"agent.dialect": "fence", "agent.max_turns": 1, "agent.max_new_tokens": 256, "sft.hindsight_share": 0}
    with open_workbench(small_config(**options)) as opened:
        yield opened


@pytest.fixture(scope="module")
def questions(bench):
    return bench.preparer.prepare(bench.preparer.load_split("train"), range(24))


def targets(bench, questions, how: str) -> list[str]:
    """What the policy learns to write, by question."""
    config = replace(bench.config, sft=replace(bench.config.sft, reasoning=how))
    traces = TraceWriter(bench.env, bench.sandbox, config, schemas(questions)).write(questions, 0)
    assert all(trace.kind == "direct" for trace in traces)
    return [bench.env.token_bytes.join([index for index, on in zip(trace.ids, trace.target) if on]).decode()
            for trace in traces]


@pytest.mark.parametrize("how", ["empty", "written", "given"])
def test_a_trace_thinks_first_and_has_each_tag_once(bench, questions, how):
    questions = [replace(each, example=replace(each.example, reasoning=f"Because {each.index}.")) for each in questions]
    texts = targets(bench, questions, how)
    assert len(texts) == len(questions)
    for question, text in zip(questions, texts):
        assert re.findall(r"</?(?:think|answer)>", text) == ["<think>", "</think>", "<answer>", "</answer>"]
        thought, answer = re.fullmatch(r"<think>\n(.*)</think>(<answer>.*)", text, re.DOTALL).groups()
        assert bench.env.dialect.parse(text.encode()).sql == question.example.gold_sql
        assert "```sql" in answer
        if how == "written":
            assert len(thought) > 20 and thought.endswith(".\n")
        else:
            assert thought == ("" if how == "empty" else f"Because {question.index}.\n")


def test_thinking_that_the_prompt_has_opened_goes_on(small_config):
    config = small_config(**{"agent.dialect": "fence", "agent.max_turns": 1, "agent.max_new_tokens": 256,
                             "sft.hindsight_share": 0, "agent.prefill": '"<think>\\n"'})
    with open_workbench(config) as bench:
        questions = bench.preparer.prepare(bench.preparer.load_split("train"), range(4))
        assert all(question.prompt_ids[-2:] == tuple(bench.encode("<think>\n")) for question in questions)
        for how, pattern in (("written", r"[A-Z].*\.\n"), ("empty", r"\n"), ("none", "")):
            for text in targets(bench, questions, how):
                assert re.fullmatch(pattern + "</think><answer>.*</answer>", text, re.DOTALL)


def test_without_reasoning_no_thinking_is_written(bench, questions):
    assert all(text.startswith("<answer>") for text in targets(bench, questions, "none"))


def test_a_question_without_the_reasoning_that_is_asked_for_has_no_trace(bench, questions):
    assert targets(bench, questions, "given") == []
    broken = replace(questions[0], example=replace(questions[0].example, gold_sql="DROP TABLE t"))
    assert targets(bench, [broken], "written") == []


@pytest.mark.parametrize(("options", "message"), [
    ({"sft.reasoning": "given"}, "data.format synsql"),
    ({"sft.reasoning": "written", "agent.prefill": '"<think>\\n</think>"'}, "closes it"),
])
def test_reasoning_that_cannot_be_had_or_said_is_refused(small_config, options, message):
    with pytest.raises(InputError, match=message):
        small_config(**options)
