"""Reasoning links: a model reads the question and the whole schema and names the tables and columns that SQL needs.

    prompt.py     what the model is asked
    chat.py       whom: any callable from messages to text, its answers kept on disk
    endpoint.py   an OpenAI-compatible server as such a callable
    parse.py      its answer, taken strictly
    reasoner.py   asks for many questions at once, once again after a wrong answer, and says what it could not get
"""

from grounding.reasoning.chat import Chat, ChatError, Message
from grounding.reasoning.endpoint import Endpoint
from grounding.reasoning.reasoner import Reasoned, Reasoner, ask_server

__all__ = ["Chat", "ChatError", "Endpoint", "Message", "Reasoned", "Reasoner", "ask_server"]
