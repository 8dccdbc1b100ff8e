"""Where requests go. Pure."""

from urllib.parse import urlsplit


class TargetError(ValueError):
    """The target's URL cannot be used: one sentence."""


def parse_target(url: str) -> tuple[str, int]:
    """Host and port of an http:// URL without a path; TargetError otherwise. An IPv6 address comes without brackets."""
    expected = "expected http://HOST:PORT"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise TargetError(f"host is {url!r}; {expected}") from None
    if parts.scheme == "https":
        raise TargetError(f"host is {url!r}; {expected}: the lean client speaks plain HTTP, no TLS")
    if parts.scheme != "http" or not parts.hostname or parts.username is not None or not parts.hostname.isprintable():
        raise TargetError(f"host is {url!r}; {expected}")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        rest = url.split("//", 1)[1].partition("/")[2]
        raise TargetError(f"host is {url!r}; {expected} alone, and the path in --path (path=/{rest})")
    if port == 0 or " " in parts.hostname:
        raise TargetError(f"host is {url!r}; {expected}")
    return parts.hostname, 80 if port is None else port


def host_header(host: str, port: int) -> str:
    """The two as a Host header has them: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
