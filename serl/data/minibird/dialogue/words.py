"""How follow-ups are said: without the noun of the rows and without any condition that was said before.

{ones} is the condition that is new, said of "ones": "female ones", "ones from Paris", and {one} of one of them.
{them}, {their} and {they} are the rows asked about before, "that one" where it is a single one.
"""

from __future__ import annotations

from collections.abc import Sequence

from serl.data.minibird.conditions import Condition
from serl.data.minibird.dialogue.talk import Talk
from serl.data.minibird.dialogue.topic import Topic

NARROW = (
    "Of those, keep only the {ones}.",
    "Only the {ones}, please.",
    "Now just the {ones}.",
    "Limit that to the {ones}.",
    "Show that only for the {ones}.",
    "And if we only take the {ones}?",
)
ALSO = (
    "Also show the {c.s}.",
    "Add the {c} to that.",
    "And the {c} as well, please.",
    "Show the {c} next to it.",
)
REPLACE_VALUE = (
    "What about the {ones} instead?",
    "And for the {ones} instead?",
    "Now the same for the {ones} instead.",
    "No, I meant the {ones} instead.",
)
REPLACE_NAME = (
    "What about {name}?",
    "And the same for {name}?",
    "Now for {name} instead.",
)
REPLACE_COLUMN = (
    "And {their} {c.s}?",
    "Show {their} {c.s} instead.",
    "I want to see the {c.s} instead.",
    "What are {their} {c.s}?",
)
REPLACE_COLUMN_OF_ONE = (
    "And the {c} of that one?",
    "What is that one's {c}?",
    "Show the {c} instead.",
    "And what {c} does that one have?",
)
LIST_THEM = (
    "Which ones are they? Give the {c.s}.",
    "List {their} {c.s}.",
    "Show me {their} {c.s}.",
)
REPLACE_MEASURE = (
    "And the {a} {c}?",
    "What about the {a} {c} instead?",
    "Now the {a} {c}, please.",
)
COUNT = (
    "How many of them are there?",
    "How many is that?",
    "Count them.",
    "How many are those in total?",
)
MEASURE = (
    "What is {their} {a} {c}?",
    "And {their} {a} {c}?",
    "Give the {a} {c} of those.",
    "What {a} {c} do they have?",
)
DISTINCT = (
    "How many different {c.s} do they have?",
    "How many different {c.s} are there among them?",
    "Count {their} distinct {c.s}.",
)
GROUP = (
    "How many of them are there for each {c}?",
    "Break {their} number down by {c}.",
    "Count them for each {c}.",
    "Show how many there are of them per {c}.",
)
SUPERLATIVE = (
    "Give the {c} of the {one}.",
    "Of those, what is the {c} of the {one}?",
    "Among them, what {c} does the {one} have?",
)
FIRST = (
    "What is the {c} of the first one?",
    "Give the {c} of the first of them.",
    "And the first one's {c}?",
)
CHILDREN = (
    "List the {c.s} of {their} {us}.",
    "Show the {c} of each of the {us} that belong to {them}.",
    "What are the {c.s} of all {their} {us}?",
)
PARENTS = (
    "What are the different {c.s} of {their} {us}?",
    "List the different {c.s} of the {us} that {they} to.",
    "Show the distinct {c.s} of {their} {us}.",
)
PARENT_OF_ONE = (
    "What is the {c} of that one's {u}?",
    "And the {c} of the {u} that {they} to?",
)
RETURN = (
    "Back to the {t} from before: {rest}",
    "Let us return to the earlier {t}: {rest}",
    "Going back to the {t} of before: {rest}",
)


_MANY = {"them": "them", "their": "their", "they": "they belong"}
_ONE = {"them": "that one", "their": "that one's", "they": "that one belongs"}


def say(talk: Talk, templates: Sequence[str], topic: Topic, **text: object) -> str:
    """A sentence about the rows of `topic`, capital first."""
    said = talk.rng.choice(templates).format_map((_ONE if topic.is_one else _MANY) | text)
    return said[0].upper() + said[1:]


def ones(condition: Condition, word: str = "ones") -> str:
    """A condition said of "ones", of which there is no noun.

    >>> ones(Condition(" = 'F'", "female", 0, adjective=True)), ones(Condition(" > 3", "older than 3", 0))
    ('female ones', 'ones older than 3')
    """
    return f"{condition.text} {word}" if condition.adjective else f"{word} {condition.text}"
