"""A user class of somebody's own, from a file.

Importing this module lets gevent take over the process, as Locust does.
"""

from pathlib import Path
from typing import Any

from locust.util.load_locustfile import load_locustfile

from loadtest.scheduled import OnSchedule


class OwnUserError(Exception):
    """The file or the class in it cannot be used: one sentence."""


def own_user_class(text: str) -> Any:
    """The class that FILE or FILE:CLASS names; OwnUserError."""
    file, _, wanted = text.partition(":")
    path = Path(file)
    if not path.is_file():
        raise OwnUserError(f"--user is {text!r} and there is no file {file}; expected FILE or FILE:CLASS")
    try:
        classes, _ = load_locustfile(str(path))
    except Exception as error:  # whatever somebody's file raises when it is imported
        raise OwnUserError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    scheduled = {name: each for name, each in classes.items() if issubclass(each, OnSchedule)}
    if wanted and wanted not in scheduled:
        named = ", ".join(scheduled) or "none"
        raise OwnUserError(f"{file} has no class {wanted} with OnSchedule among its bases; expected one of: {named}")
    if not wanted and len(scheduled) != 1:
        named = ", ".join(scheduled) or "none"
        raise OwnUserError(f"{file} has to say one class with OnSchedule among its bases, and it has: {named}")
    return scheduled[wanted or next(iter(scheduled))]
