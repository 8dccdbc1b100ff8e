"""What a load sends, made ready before it starts: the settings, the files they name and the target's own metadata in,
whole requests out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from loadtest.arrivals import Trace
from loadtest.data_file import MOST_ROWS, read_bodies, read_rows
from loadtest.messages import JSON, head, message
from loadtest.rows import RowsError, digit_rows, drawn, instances
from loadtest.settings import LoadSettings, parse_headers, parse_rows
from loadtest.shapes import Model, NotAsked, ask, is_v2
from loadtest.target import TargetError, host_header, parse_target
from loadtest.tensors import DIGITS, check_rows, counts_rows, infer_body, made_rows, takes_digits
from loadtest.trace_file import read_trace

OCTETS: Final = "application/octet-stream"
_SETTINGS: Final = ("path", "data", "rows_per_request", "header", "body_file", "timeout_seconds", "seed")

Ask = Callable[[str, int, str, Sequence[tuple[str, str]]], Model]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Requests ready to send."""

    requests: tuple[bytes, ...]
    """Whole HTTP messages; arrival k sends number k modulo their count."""
    name: str
    """What they are called in statistics and metrics: the path without its query."""
    said: str
    """One line for the log: what is sent, and why that."""


def same_requests(one: LoadSettings, other: LoadSettings) -> bool:
    """Whether both ask for the same requests, as long as target and files are the same."""
    return all(getattr(one, name) == getattr(other, name) for name in _SETTINGS)


def check_files(settings: LoadSettings) -> Trace | None:
    """Read the files that the settings name, as a run would; the trace, if one is to be replayed.

    RowsError or TraceError, one sentence, for the first that cannot be used.
    """
    if settings.body_file:
        read_bodies(settings.body_file)
    elif settings.data:
        read_rows(settings.data)
    else:
        digit_rows()
    return read_trace(settings.trace) if settings.arrivals == "trace" else None


def prepare(settings: LoadSettings, target_url: str, ask: Ask = ask) -> Prepared:
    """Reads the files, asks the target where that is needed (a few seconds at most), makes the requests.

    RowsError, one sentence, if something cannot be used; a target that does not answer is no error: it may come up
    later, and gets the digits.
    """
    try:
        host, port = parse_target(target_url)
    except TargetError as error:
        raise RowsError(str(error)) from error
    headers = parse_headers(settings.header)
    v2 = is_v2(settings.path)
    name = settings.path.partition("?")[0]

    def start(content_type: str = JSON) -> bytes:
        return head(settings.path, host_header(host, port), settings.timeout_seconds, headers, content_type)

    if settings.body_file:
        bodies = read_bodies(settings.body_file)
        begin = start(JSON if settings.body_file.endswith((".json", ".jsonl")) else OCTETS)
        said = f"{len(bodies)} bodies in turn" if len(bodies) > 1 else "one body"
        requests = tuple(message(begin, body) for body in bodies)
        return Prepared(requests, name, f"POST {settings.path} with {said} from {settings.body_file}")

    model, unknown = None, ""
    if v2 or not settings.data:
        try:
            model = ask(host, port, settings.path, headers)
        except NotAsked as error:
            unknown = f"; the target does not say what its model takes: {error}"
    if settings.data:
        rows = read_rows(settings.data)
        if model is not None:
            check_rows(rows, model, f"data {settings.data}")
        first = "the first " if len(rows) == MOST_ROWS else ""
        what = f"{first}{len(rows)} rows of {settings.data}"
    elif model is None or takes_digits(model):
        rows, what = digit_rows(), "rows of the handwritten digits"
    else:
        rows, what = made_rows(model, settings.seed), f"made-up rows in the shape that model {model.name!r} takes"
    takes = model or DIGITS
    sizes = parse_rows(settings.rows_per_request)
    if v2 and not counts_rows(takes) and sizes != (1,):
        raise RowsError(
            f"rows_per_request is {settings.rows_per_request!r}, but model {takes.name!r} takes one row a request; "
            "expected 1"
        )
    write = infer_body(takes) if v2 else instances
    begin = start()
    requests = drawn(rows, sizes, settings.seed, lambda some: message(begin, write(some)), besides_bytes=len(begin))
    return Prepared(requests, name, f"POST {settings.path} with {what}{unknown}")
