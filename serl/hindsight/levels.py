"""What each hindsight level tells the teacher about an action.

    level          told
    exec           status, row and column counts, first rows, the engine's message
    exec+verdict   and, of the solution: whether it matches the expected result
    exec+diff      and, of the solution: how its shape differs from gold's (`shape.py`), never gold's values
    exec+sibling   and the final SQL of another trajectory of the group that succeeded, if there is one
    exec+clauses   and what its parts did: rows of each table, join and condition alone, and so on (`parts/`)
    gold_result    gold's first rows, alone                            for ablations, by `hindsight.allow_gold`
    gold_sql       gold's SQL, alone                                   for ablations, by `hindsight.allow_gold`

An intermediate query is meant to differ from gold, so that a verdict on it would say nothing: verdict and diff are told
of the solution only, and other turns have plain `exec`. Text from outside (cells, messages, SQL) cannot forge a chat
token or a tag (`grounding.safety.neutralize`).
"""

from dataclasses import dataclass

from grounding.safety import neutralize
from serl.agent.observation import render_outcome
from serl.config import Config, WordingConfig
from serl.config.hindsight import check_level
from serl.hindsight.facts import Facts
from serl.hindsight.parts.lines import lines_of
from serl.hindsight.ranked import Ranked
from serl.hindsight.redact import redacted
from serl.hindsight.shape import differences
from serl.hindsight.teacher_only import GoldAnswer
from serl.sql.outcome import Outcome
from serl.sql.statement import tokens


@dataclass(frozen=True)
class ContextOptions:
    """How hindsight is written. InputError for an unknown level, and for one that shows gold without the opt-in."""

    level: str = "exec"
    budget: int = 256  # tokens of one hindsight text, frame included
    rows: int = 5  # rows of a result
    chars: int = 40  # characters of a cell; of an engine's message four times as many
    redact: str = "none"  # none | messages | action (`redact.py`)
    wording: WordingConfig = WordingConfig()
    allow_gold: bool = False

    def __post_init__(self) -> None:
        check_level(self.level, self.allow_gold)

    @classmethod
    def of(cls, config: Config) -> "ContextOptions":
        """The options of a run: the teacher sees as many rows and characters as the policy does."""
        hindsight, agent = config.hindsight, config.agent
        return cls(hindsight.level, hindsight.budget, agent.observation_rows, agent.observation_chars,
                   hindsight.redact, hindsight.wording, hindsight.allow_gold)


def told(facts: Facts, options: ContextOptions) -> tuple[str, str | Ranked] | None:
    """The body of a hindsight in two parts, the database's answer and what the level adds to it, either may be "".

    None: there is nothing to tell. Raises ValueError where `facts` do not hold what the level tells: gold, to compare
    with, or the parts' answers.
    """
    outcome, wording = facts.outcome, options.wording
    if not facts.tells:
        return None
    answer = wording.answer.format(answer=_answer(outcome, facts.sql, options))
    match options.level:
        case "exec+verdict" if facts.final and facts.correct is not None:
            return answer, wording.verdict.format(verdict="yes" if facts.correct else "no")
        case "exec+diff" if facts.final:
            return answer, wording.diff.format(differences=differences(outcome, _gold(facts)))
        case "exec+sibling" if facts.sibling is not None:
            return answer, wording.sibling.format(sql=_sql(facts.sibling.sql))
        case "exec+clauses":
            return answer, _parts(facts, options)
        case "gold_result":
            return "", wording.gold_result.format(result=_answer(_gold(facts).outcome, None, options))
        case "gold_sql":
            return "", wording.gold_sql.format(sql=_sql(_gold(facts).sql))
        case _:
            return answer, ""


def _gold(facts: Facts) -> GoldAnswer:
    if facts.gold is None:
        raise ValueError("this hindsight level compares with gold, and the facts hold none")
    return facts.gold


def _parts(facts: Facts, options: ContextOptions) -> str | Ranked:
    if facts.parts is None:
        raise ValueError("this hindsight level tells what the action's parts did, and nobody asked the database for it")
    lines = lines_of(facts.parts.findings, options.redact != "action", options.chars)
    return Ranked(options.wording.clauses, lines) if lines else ""


def _answer(outcome: Outcome, sql: str | None, options: ContextOptions) -> str:
    return redacted(render_outcome(outcome, options.rows, options.chars), outcome, sql, options.redact)


def _sql(sql: str) -> str:
    """A query in one line, without its comments, which would otherwise swallow what follows them."""
    line, end = "", 0
    for token in tokens(sql):
        line += token.group() if token.start() == end else f" {token.group()}"
        end = token.end()
    return neutralize(line)
