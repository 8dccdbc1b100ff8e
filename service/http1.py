"""HTTP/1.1 as the front speaks it: which requests are inference, and a reply as bytes."""

import time
import urllib.parse
from email.utils import formatdate
from functools import lru_cache
from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from service.handler import Reply
from slo import names

_PREDICT: Final = names.ROUTE_PREDICT.encode()
_V2_START: Final = "/v2/models/"
_V2_END: Final = "/infer"


def inference_target(url: bytes) -> tuple[str, str | None] | None:
    """(route, model in the URL) of an inference route, or None."""
    if url == _PREDICT:
        return names.ROUTE_PREDICT, None
    path = urllib.parse.unquote((httptools.parse_url(url).path or b"").decode("ascii", "replace"))
    if path == names.ROUTE_PREDICT:
        return names.ROUTE_PREDICT, None
    model = path[len(_V2_START) : -len(_V2_END)]
    if path.startswith(_V2_START) and path.endswith(_V2_END) and model and "/" not in model:
        return names.ROUTE_V2_INFER, model
    return None


def rendered(reply: Reply, keep_alive: bool) -> bytes:
    """The whole reply; one that does not keep the connection says so."""
    end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
    return b"".join((STATUS_LINE[reply.status], _date(int(time.time())), reply.headers, end, reply.body))


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return f"date: {formatdate(second, usegmt=True)}\r\n".encode()
