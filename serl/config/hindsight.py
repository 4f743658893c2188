"""What a config may say of the teacher-only text: which levels there are, and in which words they are told."""

import re
from dataclasses import dataclass, fields
from string import Formatter

from serl.agent.dialects import TAGS
from serl.errors import InputError

GOLD_LEVELS = ("gold_result", "gold_sql")
CLAUSES = "exec+clauses"  # the level for which parts of the action are executed too
LEVELS = ("exec", "exec+verdict", "exec+diff", "exec+sibling", CLAUSES, *GOLD_LEVELS)


@dataclass(frozen=True)
class WordingConfig:
    """How hindsight is worded (serl.hindsight.levels); `{field}` is where the facts go, and every field is needed.

    The defaults are neutral: they say what is the case, not what the teacher should make of it.
    """

    tag: str = "hindsight"  # the frame is <tag> ... </tag>
    answer: str = "{answer}"  # what the database answered to the action; every exec level
    verdict: str = "matches the expected result: {verdict}"  # exec+verdict; {verdict} is yes or no
    diff: str = "compared with the expected result: {differences}"  # exec+diff
    sibling: str = "another query that matches the expected result: {sql}"  # exec+sibling
    clauses: str = "its parts:\n{parts}"  # exec+clauses
    gold_result: str = "expected result:\n{result}"  # gold_result
    gold_sql: str = "expected query: {sql}"  # gold_sql


FIELDS = {"answer": "answer", "verdict": "verdict", "diff": "differences", "sibling": "sql", "clauses": "parts",
          "gold_result": "result", "gold_sql": "sql"}
_FORGES = re.compile(r"[<>`\[\]]")  # with what stands in a field, these could make a tag or a chat token


def check_level(level: str, allow_gold: bool) -> None:
    """Raises InputError for an unknown level, and for one that shows the teacher gold without the opt-in."""
    if level not in LEVELS:
        raise InputError(f"hindsight.level is {level!r}; choose one of {', '.join(LEVELS)}")
    if level in GOLD_LEVELS and not allow_gold:
        raise InputError(f"hindsight.level {level} shows the teacher gold; set hindsight.allow_gold to true if that is "
                         "meant (an ablation), or choose another level")


def check_wording(wording: WordingConfig) -> None:
    """Raises InputError that names the option whose words cannot be used."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", wording.tag) or wording.tag.lower() in TAGS:
        raise InputError(f"config: hindsight.wording.tag is {wording.tag!r}; it must be one plain word, and none of "
                         f"{', '.join(TAGS)}, which the policy uses")
    for option in (field.name for field in fields(wording) if field.name != "tag"):
        text, needed = getattr(wording, option), FIELDS[option]
        try:
            parsed = list(Formatter().parse(text))
        except ValueError as error:
            raise InputError(f"config: hindsight.wording.{option} is {text!r}: {error}") from error
        found = [field + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
                 for _, field, spec, conversion in parsed if field is not None]
        if found != [needed]:
            named = ", ".join(f"{{{name}}}" for name in found) or "none"
            raise InputError(f"config: hindsight.wording.{option} is {text!r}; it must hold the field {{{needed}}} "
                             f"once and no other, not {named}")
        if _FORGES.search("".join(literal for literal, *_ in parsed)):
            raise InputError(f"config: hindsight.wording.{option} is {text!r}; it must not hold < > [ ] or `, which "
                             "tags and chat tokens are made of")
