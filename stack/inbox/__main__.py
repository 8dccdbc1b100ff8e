"""`python -m stack.inbox`: reads the environment, opens the file, serves until SIGTERM or Ctrl-C."""

import logging
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import waitress
from prometheus_client import disable_created_metrics

from stack.inbox.metrics import InboxMetrics
from stack.inbox.store import NoticeStore
from stack.inbox.web import MAX_BODY_BYTES, create_app

_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class InboxSettings:
    """INBOX_HOST, INBOX_PORT and TAILBOARD_STATE_DIR."""

    host: str = "127.0.0.1"
    port: int = 8060
    file: Path = Path(".tailboard/inbox.jsonl")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "InboxSettings":
        """Unset and empty mean the default. ValueError with one sentence for a port that is none."""
        port = environment.get("INBOX_PORT", "").strip() or "8060"
        if not re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) or not 1 <= int(port) <= 65535:
            raise ValueError(f"INBOX_PORT is {port!r}; expected a port from 1 to 65535")
        state_dir = environment.get("TAILBOARD_STATE_DIR", "").strip() or ".tailboard"
        host = environment.get("INBOX_HOST", "").strip() or "127.0.0.1"
        return cls(host, int(port), Path(state_dir) / "inbox.jsonl")


def main(environment: Mapping[str, str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    disable_created_metrics()  # type: ignore[no-untyped-call]  # has no annotations
    try:
        settings = InboxSettings.from_environment(environment)
        store = NoticeStore(settings.file, time.time)
        server = waitress.create_server(
            create_app(store, InboxMetrics(), time.time),
            host=settings.host,
            port=settings.port,
            threads=_THREADS,
            ident=None,
            max_request_body_size=2 * MAX_BODY_BYTES,  # what is above ours is answered by us, with a sentence
        )
    except ValueError as error:
        return _failed(str(error))
    except OSError as error:
        place = error.filename or f"{settings.host}:{settings.port}"
        return _failed(f"the alert inbox cannot use {place} ({error.strerror})")
    if store.unreadable_lines:
        logging.warning("%d lines of %s could not be read and are left alone", store.unreadable_lines, settings.file)
    signal.signal(signal.SIGTERM, _end)
    logging.info("alert inbox on http://%s:%d, kept in %s", settings.host, settings.port, settings.file)
    server.run()  # returns on SystemExit and KeyboardInterrupt, with requests answered
    return 0


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def _failed(sentence: str) -> int:
    print(f"error: {sentence}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(os.environ))
