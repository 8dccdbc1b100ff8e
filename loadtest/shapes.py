"""What a target's model takes, asked of the target itself by the Open Inference Protocol v2.

path ─▶ name of the model, from a v2 path, else POST /v2/repository/index ─▶ GET /v2/models/NAME ─▶ its inputs
"""

import http.client
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

TIMEOUT_SECONDS: Final = 2.0  # for each of two questions; a target that is slower than that has other worries
_MOST_BYTES: Final = 1_000_000
_INFER: Final = re.compile(r"(?P<before>.*)/v2/models/(?P<name>[^/?]+)(?P<version>/versions/[^/?]+)?/infer(\?.*)?")
NUMBERS: Final = ("FP16", "FP32", "FP64", "BF16")
INTEGERS: Final = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
DATATYPES: Final = (*NUMBERS, *INTEGERS, "BOOL", "BYTES")


class NotAsked(Exception):
    """The target does not say what its model takes: part of a sentence, the reason."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input. `shape` has -1 where any length will do; a first axis of -1 counts rows."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A model as its metadata describe it."""

    name: str
    inputs: tuple[Tensor, ...]


Get = Callable[[str, str, bytes], tuple[int, bytes]]  # (method, path, body) -> (status, body)


def is_v2(path: str) -> bool:
    """Whether requests to that path are v2 infer requests."""
    return _INFER.fullmatch(path) is not None


def ask(host: str, port: int, path: str, headers: Sequence[tuple[str, str]] = ()) -> Model:
    """The model behind `path` at that target; NotAsked if it does not say."""

    def get(method: str, where: str, body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, where, body or None, {**dict(headers), "Accept": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.read(_MOST_BYTES)
        except TimeoutError:
            raise NotAsked(f"no answer to {method} {where} within {TIMEOUT_SECONDS:g} s") from None
        except OSError as error:
            raise NotAsked(f"it cannot be reached ({error.strerror or error})") from None
        except http.client.HTTPException as error:
            raise NotAsked(f"its answer to {method} {where} is no HTTP ({type(error).__name__})") from None
        finally:
            connection.close()

    return asked(path, get)


def asked(path: str, get: Get) -> Model:
    """The same by way of `get`, which sends one request."""
    match = _INFER.fullmatch(path)
    if match:
        where = f"{match['before']}/v2/models/{match['name']}{match['version'] or ''}"
    else:
        where = f"/v2/models/{quote(_only_model(get), safe='')}"
    model = _json(get, "GET", where, b"")
    try:
        name = str(model.get("name") or unquote(where.rsplit("/", 1)[1]))
        inputs = tuple(_tensor(each) for each in model["inputs"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise NotAsked(f"its answer to GET {where} describes no inputs with name, datatype and shape") from None
    if not inputs:
        raise NotAsked(f"its answer to GET {where} describes no inputs")
    return Model(name, inputs)


def _only_model(get: Get) -> str:
    models = _json(get, "POST", "/v2/repository/index", b"{}")
    try:
        names = {str(model["name"]) for model in models if model.get("state", "READY") in ("READY", "")}
    except (AttributeError, KeyError, TypeError):
        raise NotAsked("its answer to POST /v2/repository/index is no list of models") from None
    if len(names) != 1:
        raise NotAsked(f"it has {len(names)} models ready ({', '.join(sorted(names)[:5])}), and the path names none")
    return names.pop()


def _json(get: Get, method: str, where: str, body: bytes) -> Any:
    status, answer = get(method, where, body)
    if status != 200:
        raise NotAsked(f"{method} {where} has status {status}")
    try:
        return json.loads(answer)
    except ValueError:
        raise NotAsked(f"its answer to {method} {where} is no JSON") from None


def _tensor(described: Any) -> Tensor:
    tensor = Tensor(described["name"], described["datatype"], tuple(described["shape"]))
    usable = isinstance(tensor.name, str) and all(type(length) is int and length >= -1 for length in tensor.shape)
    if not usable or tensor.datatype not in DATATYPES:
        raise ValueError(described)
    return tensor
