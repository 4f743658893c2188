"""Chat templates that behave as those of the models in use do, each with a small tokenizer that has its tokens.

Only what matters to an appended conversation is kept: roles, tokens, white space, what is dropped, moved or invented.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.models import byte_level_tokenizer, sentencepiece_tokenizer, tiny_tokenizer

_CHATML = ("<|im_end|>", "<|im_start|>", "<|endoftext|>")
_TOOL_TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_OPEN = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

# Text of its own where there is no system message; any role goes.
SMOLLM2 = (
    "{% for m in messages %}{% if loop.first and m.role != 'system' %}<|im_start|>system\nA small model.<|im_end|>\n"
    "{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" + _OPEN)

_HERMES_TOOLS = (
    "{% if tools %}<|im_start|>system\n{{ messages[0].content if messages[0].role == 'system' else 'I am Q.' }}\n"
    "Functions:\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}Call them within <tool_call></tool_call>."
    "<|im_end|>\n{% elif messages[0].role == 'system' %}<|im_start|>system\n{{ messages[0].content }}<|im_end|>\n"
    "{% else %}<|im_start|>system\nI am Q.<|im_end|>\n{% endif %}")
_TOOL_ANSWERS = (  # answers in a row share a message of the user
    "{% elif m.role == 'tool' %}{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user"
    "{% endif %}{{ '\n' }}<tool_response>\n{{ m.content }}\n</tool_response>"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>\n{% endif %}")

# Tools in the Hermes format, tool answers as the user's, a system text of its own.
QWEN25 = (
    _HERMES_TOOLS + "{% for m in messages %}{% if m.role in ('user', 'assistant') %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}<|im_end|>\n" + _TOOL_ANSWERS + "{% endif %}{% endfor %}" + _OPEN)

_LAST_QUESTION = ("{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' and not "
                  "m.content.startswith('<tool_response>') %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}")
# The thinking of turns before the last question is dropped; the rest of it gets a spacing of its own, and the last
# turn an empty block if it has none.
_THINKING = (
    "{% elif m.role == 'assistant' %}{% set parts = m.content.split('</think>') %}"
    "{% set thought = parts[0].split('<think>')[-1].strip('\n') if parts | length > 1 else '' %}"
    "{% set said = parts[-1].lstrip('\n') if parts | length > 1 else m.content %}<|im_start|>assistant\n"
    "{% if loop.index0 > ns.last and (loop.last or thought) %}<think>\n{{ thought }}\n</think>\n\n{% endif %}"
    "{{ said }}<|im_end|>\n")
_QWEN3_TURNS = (
    "{% for m in messages %}{% if m.role == 'user' %}<|im_start|>user\n{{ m.content }}<|im_end|>\n" + _THINKING
    + _TOOL_ANSWERS + "{% endif %}{% endfor %}")
QWEN3 = (
    _HERMES_TOOLS + _LAST_QUESTION + _QWEN3_TURNS + "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}")
# The prompt opens the thinking.
QWEN3_THINKING = (
    _HERMES_TOOLS + _LAST_QUESTION + _QWEN3_TURNS
    + "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}")

# Headers between tokens, today's date in the system's, trimmed messages, tool answers as JSON under another name,
# tools for which it asks in a format of its own.
LLAMA3 = (
    "{{ bos_token }}<|start_header_id|>system<|end_header_id|>\n\nToday: {{ strftime_now('%d %b %Y') }}\n\n"
    "{{ messages[0].content | trim if messages[0].role == 'system' else '' }}<|eot_id|>"
    "{% for m in messages %}{% if m.role == 'system' %}{% elif m.role == 'tool' %}"
    "<|start_header_id|>ipython<|end_header_id|>\n\n{{ m.content | tojson }}<|eot_id|>{% else %}"
    "<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{% if tools and loop.index0 == 1 %}Answer with a JSON object of name and parameters: {{ tools | tojson }}\n\n"
    "{% endif %}{{ m.content | trim }}<|eot_id|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}")

# No system role, strictly alternating turns, the assistant is called model, trimmed messages.
GEMMA = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('there is no system role') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('turns must alternate') }}{% endif %}"
    "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}")

# The system text goes to the last message of the user; a space before the assistant's; ids that tool answers need.
MISTRAL = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{% set ns = namespace(text=messages[0].content + '\n\n') %}"
    "{% else %}{% set ns = namespace(text='') %}{% endif %}{% for m in messages %}{% if m.role == 'user' %}"
    "[INST] {{ ns.text if loop.last else '' }}{{ m.content }} [/INST]{% elif m.role == 'assistant' %}"
    " {{ m.content | trim }}{{ eos_token }}{% elif m.role == 'tool' %}"
    "{% if m.tool_call_id is not defined %}{{ raise_exception('tool answers need an id') }}{% endif %}"
    "{% elif m.role != 'system' %}{{ raise_exception('no such role') }}{% endif %}{% endfor %}")

# Opens the thinking and drops all of it from earlier turns, whatever follows.
R1 = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% elif m.role == 'assistant' %}"
    "<|Assistant|>{{ m.content.split('</think>')[-1] }}<|end|>{% else %}<|User|>{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|Assistant|><think>\n{% endif %}")

# No special tokens at all: words around the text.
PLAIN = (
    "{% for m in messages %}{{ m.role.upper() }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT: {% endif %}")


@dataclass(frozen=True)
class Model:
    """A template and the tokenizer that goes with it."""

    template: str
    make: Callable[[], object]

    @property
    def tokenizer(self):
        tokenizer = self.make()
        tokenizer.chat_template = self.template
        return tokenizer


def _with_bos(tokenizer, bos: str):
    tokenizer.bos_token = bos
    return tokenizer


def _chatml(*added: str) -> Callable[[], object]:
    return lambda: byte_level_tokenizer(_CHATML, added)


MODELS = {
    "embedded": Model(tiny_tokenizer().chat_template, tiny_tokenizer),
    "smollm2": Model(SMOLLM2, _chatml()),
    "qwen2.5": Model(QWEN25, _chatml(*_TOOL_TAGS)),
    "qwen3": Model(QWEN3, _chatml(*_TOOL_TAGS, "<think>", "</think>")),
    "qwen3-thinking": Model(QWEN3_THINKING, _chatml(*_TOOL_TAGS, "<think>", "</think>")),
    "llama3": Model(LLAMA3, lambda: _with_bos(byte_level_tokenizer(
        ("<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>")), "<|begin_of_text|>")),
    "gemma": Model(GEMMA, lambda: _with_bos(sentencepiece_tokenizer(
        ("<end_of_turn>", "<bos>", "<start_of_turn>"), space_before=False), "<bos>")),
    "mistral": Model(MISTRAL, lambda: _with_bos(sentencepiece_tokenizer(
        ("</s>", "<s>", "[TOOL_RESULTS]"), space_before=True), "<s>")),
    "plain": Model(PLAIN, _chatml()),
}
"""Those that multi-turn conversations can be held with."""

R1_MODEL = Model(R1, lambda: _with_bos(byte_level_tokenizer(("<|end|>", "<|begin|>", "<|User|>", "<|Assistant|>")),
                                       "<|begin|>"))
