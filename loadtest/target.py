"""Where requests go. Pure."""

from urllib.parse import urlsplit


class TargetError(ValueError):
    """The target's URL cannot be used: one sentence."""


def parse_target(url: str) -> tuple[str, int]:
    """Host and port of an http:// URL without a path; TargetError otherwise."""
    expected = "expected http://HOST:PORT; the lean client speaks plain HTTP"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise TargetError(f"host is {url!r}; {expected}") from None
    if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/") or parts.query or parts.username:
        raise TargetError(f"host is {url!r}; {expected}")
    return parts.hostname, 80 if port is None else port
