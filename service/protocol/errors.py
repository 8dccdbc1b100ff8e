"""How a request is refused before it reaches the batcher."""


class Refused(Exception):
    """The request is wrong; `status` is the HTTP status, the message says what is wrong and what was expected."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def shown(value: object, longest: int = 60) -> str:
    """A client's value as it may stand in a message: short, on one line, quoted as JSON-like text."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
