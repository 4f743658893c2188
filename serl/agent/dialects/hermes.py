"""The `hermes` dialect, of MTSQL-R1 (arXiv 2510.12831): tool calls in the format of the Hermes models, and verdicts.

    <think>...</think> <exec_verify>pass</exec_verify> <memory_verify>no_pass</memory_verify>
    <tool_call>{"name": "exec_sql", "arguments": {"code": "SELECT ..."}}</tool_call>          an intermediate query
    <tool_call>{"name": "memory_retrieve", "arguments": {"code": "SELECT ..."}}</tool_call>   look into the memory
    <answer_sql>SELECT ...</answer_sql>                                                       the final answer

Verdicts are optional, and are about what came before; the first call or answer counts. SQL in a call is a JSON string:
its characters are mapped back to the very bytes that spell them. A raw line break in such a string is read as it is,
which strict JSON would refuse.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from serl.agent.dialects.dialect import THINK_TAG, Dialect, written
from serl.agent.dialects.events import Check, Event, Final, Kind, Malformed, Recall, Role, Sql, Verify
from serl.agent.dialects.json_call import character_starts, string_values
from serl.agent.spans import Span

_CALL, _ANSWER = b"<tool_call>", b"<answer_sql>"
_CHECKS = {b"<exec_verify>": Check.EXECUTION, b"<memory_verify>": Check.MEMORY}
_VERDICTS = {b"pass": True, b"no_pass": False}
_ARGUMENT = "code"


class Tool(StrEnum):
    """What can be called."""

    EXECUTE = "exec_sql"
    MEMORY = "memory_retrieve"


_KINDS = {Tool.EXECUTE: Kind.SQL, Tool.MEMORY: Kind.RECALL}
_NAMES = {kind: str(name) for name, kind in _KINDS.items()}


def _tool(name: str, description: str, argument: str) -> Mapping[str, Any]:
    parameters = {"type": "object", "properties": {_ARGUMENT: {"type": "string", "description": argument}},
                  "required": [_ARGUMENT]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_TOOLS = {
    Tool.EXECUTE: _tool("exec_sql", "Runs one SQL query on the database; returns its rows or its error message.",
                        "the SQL query"),
    Tool.MEMORY: _tool("memory_retrieve", "Tells the earlier turns of the conversation: question, SQL, its parts and "
                       "result; and what of them a query lacks.", "the SQL query to compare with them"),
}
_LINES = {
    Tool.EXECUTE: "- call the tool exec_sql, which runs a query; the database answers with its rows or its error "
                  "message.\n",
    Tool.MEMORY: "- call the tool memory_retrieve with a query, which tells the earlier turns of the conversation and "
                 "what of them the query lacks.\n",
}
_COUNTS = {1: "two", 2: "three"}  # by the number of tools
_VERDICT_LINES = {
    Tool.EXECUTE: "When the database has answered, first say whether its answer is what the question needs: "
                  "<exec_verify>pass</exec_verify> or <exec_verify>no_pass</exec_verify>.\n",
    Tool.MEMORY: "When the memory has answered, first say whether the query agrees with the conversation: "
                 "<memory_verify>pass</memory_verify> or <memory_verify>no_pass</memory_verify>.\n",
}


@dataclass(frozen=True)
class Hermes(Dialect):
    """Tool calls as JSON, answers between tags. Instructions tell the tools that are `offered`; all are read.

    >>> Hermes().parse(b'<tool_call>{"name": "exec_sql", "arguments": {"code": "SELECT\\\\n1"}}</tool_call>').sql
    'SELECT\\n1'
    """

    name = "hermes"
    tags = (THINK_TAG, "tool_call", "tool_response", "exec_verify", "memory_verify", "answer_sql")
    stop_tags = (b"</tool_call>", b"</answer_sql>")
    solution = "answer"
    observation_roles = ("tool", "user")
    offered: tuple[Tool, ...] = (Tool.EXECUTE,)
    ordered: bool = False  # whether the instructions tell the order of actions (`serl.agent.order`)

    @property
    def tools(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(_TOOLS[tool] for tool in self.offered)

    def read(self, sampled: bytes, start: int) -> Iterator[Event]:
        role = Role.QUERY
        while True:
            found = sorted((place, opener) for opener in (*_CHECKS, _CALL, _ANSWER)
                           if (place := sampled.find(opener, start)) >= 0)
            if not found:
                yield Malformed((start, len(sampled)), "expected <tool_call>...</tool_call> or "
                                                       "<answer_sql>...</answer_sql>")
                return
            place, opener = found[0]
            closer = b"</" + opener[1:]
            body = place + len(opener)
            end = sampled.find(closer, body)
            if end < 0:
                yield Malformed((body, len(sampled)), f"{opener.decode()} was not closed with {closer.decode()}")
                return
            if opener not in _CHECKS:
                yield _call(sampled, (body, end), role) if opener == _CALL else written(Final, sampled, (body, end))
                return
            verdict = _VERDICTS.get(sampled[body:end].strip())
            if verdict is None:
                yield Malformed((body, end), f"{opener.decode()} holds pass or no_pass")
                return
            yield Verify((body, end), _CHECKS[opener], verdict)
            role = role if verdict else Role.CORRECT
            start = end + len(closer)

    def action(self, kind: Kind, text: str) -> str:
        if kind is Kind.FINAL:
            return f"<answer_sql>{text}</answer_sql>"
        if kind not in _NAMES:
            raise ValueError(f"dialect hermes has no action {kind}")
        call = json.dumps({"name": _NAMES[kind], "arguments": {_ARGUMENT: text}}, ensure_ascii=False)
        # "\/" is JSON's own spelling of "/": no text can close the call.
        return "<tool_call>\n" + call.replace("</", "<\\/") + "\n</tool_call>"

    def verdict(self, check: Check, passed: bool) -> str:
        return f"<{check}_verify>{'pass' if passed else 'no_pass'}</{check}_verify>"

    def observation(self, body: str, role: str) -> str:
        """A chat template that knows tools frames their answers itself."""
        return body if role == "tool" else f"<tool_response>\n{body}\n</tool_response>"

    def instructions(self, turns: str) -> str:
        return (
            "You are an expert in SQLite. Answer the question with one SQL query on the given database.\n"
            f"You may think inside <think>...</think>. Then do one of {_COUNTS[len(self.offered)]} things:\n"
            + "".join(_LINES[tool] for tool in self.offered) +
            "- <answer_sql>SELECT ...</answer_sql> gives the final query and ends the conversation.\n"
            + "".join(_VERDICT_LINES[tool] for tool in self.offered) + self._order() +
            f"Check values and intermediate results before you answer. {turns} The answer returns exactly the "
            "columns that are asked for.\n"
            f"For example, to the question \"How many singers are there?\" "
            f"{'the first action' if self.ordered else 'a whole answer'} is:\n"
            + self.action(Kind.SQL if self.ordered else Kind.FINAL, "SELECT count(*) FROM singer"))

    def _order(self) -> str:
        if not self.ordered:
            return ""
        checks = "exec_verify" + (", memory_retrieve, memory_verify" if Tool.MEMORY in self.offered else "")
        return (f"Keep to this order: exec_sql, {checks}, answer_sql. After a no_pass comes exec_sql with a corrected "
                "query.\n")

    def tools_in_words(self) -> str:
        schemas = "\n".join(json.dumps(tool["function"]) for tool in self.tools)
        return (f"Tools, as JSON schemas:\n{schemas}\nA call is a JSON object between tags:\n"
                f'<tool_call>\n{{"name": "{self.offered[0]}", "arguments": {{"code": "SELECT ..."}}}}\n</tool_call>')

    def describes_tools(self, rendered: str) -> bool:
        """Some templates ask for calls of another form: then the system message has to tell of ours."""
        return _CALL.decode() in rendered and all(tool["function"]["name"] in rendered for tool in self.tools)


def _call(sampled: bytes, body: Span, role: Role) -> Event:
    """What a tool call says; `body` is its JSON."""
    try:
        text = sampled[slice(*body)].decode("utf-8")
        call = json.loads(text, strict=False)
    except UnicodeDecodeError:
        return Malformed(body, "the tool call is not valid UTF-8")
    except (ValueError, RecursionError):
        return Malformed(body, "the tool call is not valid JSON")
    if not isinstance(call, dict) or call.get("name") not in _NAMES.values():
        return Malformed(body, f"a tool call names one of {', '.join(_KINDS)}")
    arguments = call.get("arguments")
    if not isinstance(arguments, dict) or list(arguments) != [_ARGUMENT] or not isinstance(arguments[_ARGUMENT], str):
        return Malformed(body, f"the arguments of {call['name']} are one text: {_ARGUMENT}")
    code = arguments[_ARGUMENT]
    if any("\ud800" <= character <= "\udfff" for character in code):
        return Malformed(body, "the SQL is not valid UTF-8")
    values = string_values(text)

    def byte_at(place: int) -> int:
        return body[0] + len(text[:place].encode())

    first, last = values["arguments", _ARGUMENT]
    starts = character_starts(text[first:last])
    base, offsets = byte_at(first), [0]
    for start, end in zip(starts, starts[1:]):
        offsets.append(offsets[-1] + len(text[first + start: first + end].encode()))
    offsets = tuple(base + offset for offset in offsets)
    tool = byte_at(values["name",][0]), byte_at(values["name",][1])
    said = ((offsets[0], offsets[-1]), code, offsets, tool)
    return Sql(*said, role) if _KINDS[call["name"]] is Kind.SQL else Recall(*said)
