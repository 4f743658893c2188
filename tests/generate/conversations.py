"""Random conversations with a tiny model, as a generator sees them: turns of sessions, observations between them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from serl.agent.dialects import DIALECTS
from serl.agent.token_bytes import TokenBytes
from serl.generate.hf import HFGenerator
from serl.generate.interface import Generation, Request
from serl.generate.stopping import StopRule
from tests.models import tiny_model, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
TOKEN_BYTES = TokenBytes(TOKENIZER)
MODEL = tiny_model(len(TOKENIZER))
EOS = {TOKENIZER.eos_token_id}
RULE = StopRule(TOKEN_BYTES.of, frozenset(EOS), ("</sql>", "</solution>"), DIALECTS["xml"].is_complete)
PROMPTS = [TOKENIZER.encode(text, add_special_tokens=False)
           for text in ("SELECT name", "how many cities are there in Peru? 12345", "city(id")]


def make_generator(batch_size: int = 100, seed: int = 0, share: bool = True, model=MODEL) -> HFGenerator:
    return HFGenerator(model, RULE, seed, batch_size, share)


@dataclass
class Conversation:
    """One trajectory: its prompt, and an observation of so many tokens before each further turn."""

    number: int
    prompt: Sequence[int]
    observations: Sequence[int] = (5, 1)
    ids: list[int] = field(init=False)
    generations: list[Generation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ids = list(self.prompt)

    @property
    def request(self) -> Request:
        turn = len(self.generations)
        return Request(self.ids, (0, self.number, turn), len(self.prompt), session=("trajectory", self.number))

    def take(self, generation: Generation) -> bool:
        """Whether there is a further turn, behind an observation that is now part of the ids."""
        turn = len(self.generations)
        self.generations.append(generation)
        self.ids += generation.ids
        if turn == len(self.observations):
            return False
        self.ids += [(7 * self.number + 3 * i + turn) % len(TOKENIZER) for i in range(self.observations[turn])]
        return True


def converse(generator, conversations: Sequence[Conversation], max_new_tokens: int = 12, temperature: float = 1.0
             ) -> list[Conversation]:
    """Run all of them to the end, without waiting for one another."""
    running = {conversation.number: conversation for conversation in conversations}
    for conversation in conversations:
        generator.submit(conversation.number, conversation.request, max_new_tokens, temperature)
    while running:
        for key, generation in generator.poll():
            conversation = running[key]
            if conversation.take(generation):
                generator.submit(key, conversation.request, max_new_tokens, temperature)
            else:
                generator.release(conversation.request.session)
                del running[key]
    return list(conversations)


def some(count: int, observations: Sequence[int] = (5, 1)) -> list[Conversation]:
    """So many conversations over the three prompts, with observations of unequal lengths."""
    return [Conversation(i, PROMPTS[i % 3], [size + i % 4 for size in observations]) for i in range(count)]
