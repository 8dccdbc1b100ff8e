"""What a reply means: the `outcome` of metrics by its HTTP status, and the `End` of samples by that. Pure."""

from collections.abc import Mapping
from typing import Final

from loadtest.analysis.samples import End

_SHED: Final = (429, 503)  # turned away on purpose; not the client's mistake
ENDS: Final[Mapping[str, End]] = {
    "ok": End.OK,
    "client_error": End.CLIENT_ERROR,
    "shed": End.SHED,
    "failed": End.FAILED,
}


def outcome_of(status: int) -> str:
    """The `outcome` label of a reply with that HTTP status."""
    if 200 <= status < 300:
        return "ok"
    if status in _SHED:
        return "shed"
    return "client_error" if 400 <= status < 500 else "failed"


def client_errors(failures: Mapping[str, int]) -> dict[str, int]:
    """Those among failures, such as "HTTP 404" → how many, that are the client's mistake."""
    return {what: count for what, count in failures.items() if outcome_of(_status(what)) == "client_error"}


def _status(what: str) -> int:
    """The HTTP status that a failure is named after; 0 for another one, such as a timeout."""
    kind, _, number = what.partition(" ")
    return int(number) if kind == "HTTP" and number.isdigit() else 0
