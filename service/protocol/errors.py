"""How a request is refused before it reaches the batcher."""

import reprlib
from typing import Final

_SHORT: Final = reprlib.Repr()  # plain repr() of deep nesting raises RecursionError, and of a large body takes long
_SHORT.maxlevel = 4
_SHORT.maxlist = _SHORT.maxdict = 20


class Refused(Exception):
    """The request is wrong; `status` is the HTTP status, the message says what is wrong and what was expected."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def shown(value: object, longest: int = 60) -> str:
    """A client's value as it may stand in a message: short, on one line, quoted as JSON-like text.

    Takes bounded time and memory, whatever the value's size and depth.
    """
    text = repr(value[:longest]) if isinstance(value, str) else _SHORT.repr(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
