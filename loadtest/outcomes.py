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
