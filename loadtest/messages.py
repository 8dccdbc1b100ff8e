"""HTTP/1.1 requests as bytes. Pure."""

from collections.abc import Sequence

JSON = "application/json"


def head(
    path: str,
    host: str,
    timeout_seconds: float,
    headers: Sequence[tuple[str, str]] = (),
    content_type: str = JSON,
) -> bytes:
    """A POST's head but for its Content-Length and end; `host` is "name:port".

    The `headers` of a person come last, and one of them takes the place of ours of the same name.
    """
    own = {
        "Host": host,
        "Content-Type": content_type,
        "Accept": JSON,
        "X-Request-Timeout-Ms": str(max(1, round(timeout_seconds * 1000))),
    }
    given = {name.lower() for name, _ in headers}
    lines = [f"POST {path} HTTP/1.1"]
    lines += [f"{name}: {content}" for name, content in own.items() if name.lower() not in given]
    lines += [f"{name}: {content}" for name, content in headers]
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def message(start: bytes, body: bytes) -> bytes:
    """The whole request: a head made by `head`, and its body."""
    return b"%bContent-Length: %d\r\n\r\n%b" % (start, len(body), body)
