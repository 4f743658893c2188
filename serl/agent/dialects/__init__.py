"""The languages that a policy acts in, each a file; `agent.dialect` names one.

    xml      think, sql, solution, observation                 SERL-SQL
    fence    think, answer with a fenced block; one turn       SQL-R1
    hermes   tool calls, verdicts, answer_sql                  MTSQL-R1
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from serl.agent.dialects.dialect import CLOSE_THINKING, OPEN_THINKING, Dialect, opens_thinking
from serl.agent.dialects.events import (
    Action,
    Check,
    Event,
    Final,
    Kind,
    Malformed,
    Recall,
    Role,
    Sql,
    Think,
    Verify,
    Written,
)
from serl.agent.dialects.fence import Fence
from serl.agent.dialects.form import Form
from serl.agent.dialects.hermes import Hermes, Tool
from serl.agent.dialects.xml import Xml

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (Xml(), Fence(), Hermes())}
TAGS = tuple(dict.fromkeys(tag for dialect in DIALECTS.values() for tag in dialect.tags))
"""Names of every tag that some dialect uses."""


def dialect_of(name: str, tools: Sequence[str], ordered: bool) -> Dialect:
    """The dialect of a run: where it has tools, it offers these, and tells of their order if they are `ordered`."""
    dialect = DIALECTS[name]
    if isinstance(dialect, Hermes):
        return replace(dialect, offered=tuple(map(Tool, tools)), ordered=ordered)
    return dialect


def of_record(record: Mapping[str, Any]) -> Dialect:
    """The dialect of a recorded trajectory. Records of before there were several do not say it."""
    return replace(DIALECTS[record.get("dialect", "xml")], thinking_open=record.get("thinking_open", False))


__all__ = ["CLOSE_THINKING", "DIALECTS", "OPEN_THINKING", "TAGS", "Action", "Check", "Dialect", "Event", "Fence",
           "Final", "Form", "Hermes", "Kind", "Malformed", "Recall", "Role", "Sql", "Think", "Tool", "Verify",
           "Written", "Xml", "dialect_of", "of_record", "opens_thinking"]
