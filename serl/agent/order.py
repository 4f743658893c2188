"""The order of MTSQL-R1's actions (arXiv 2510.12831) as a guard, `agent.order`.

    PROPOSE ─ EXECUTE ─ E-VERIFY ─ pass ─▶ M-VERIFY ─ pass ─▶ FINALIZE
                 ▲         └────── no_pass ──────┘
                 └── SELF-CORRECT ◀──┘

    off      nothing is looked at
    remind   an action out of order is carried out as any other, and its answer states the rule
    strict   it is not carried out: it costs a turn, and is answered with the rule

Without a memory M-VERIFY falls away. The last action may always be the answer, since nothing else is left to do.
"""

from collections.abc import Sequence

from serl.agent.calls import calls_of
from serl.agent.dialects import Check, Kind
from serl.agent.trajectory import Turn

ORDERS = ("off", "remind", "strict")
_NAMES = {Check.EXECUTION: "exec_verify", Check.MEMORY: "memory_verify"}
_ACTIONS = {Kind.SQL: "a query by exec_sql", Kind.RECALL: "a look at memory_retrieve", Kind.FINAL: "the answer"}


def breach(turns: Sequence[Turn], memory: bool) -> str:
    """The rule that the last turn breaks, worded for the model; "" if it keeps the order, or is no action at all."""
    now = turns[-1].parsed.kind
    if now is Kind.MALFORMED:
        return ""
    before = [call for call in calls_of(turns) if call.turn < len(turns) - 1]
    if not before:
        return "" if now is Kind.SQL else f"first comes {_ACTIONS[Kind.SQL]}"
    name, verdict = _NAMES[before[-1].check], before[-1].verdict
    if verdict is None:
        return f"first say {name} of the last answer, once: pass or no_pass"
    looks = memory and before[-1].check is Check.EXECUTION
    due = Kind.SQL if not verdict else Kind.RECALL if looks else Kind.FINAL
    return "" if now is due else f"after {name} {'pass' if verdict else 'no_pass'} comes {_ACTIONS[due]}"
