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

from stack.inbox.held import Alertmanager
from stack.inbox.metrics import InboxMetrics
from stack.inbox.store import NoticeStore
from stack.inbox.web import MAX_BODY_BYTES, create_app

_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class InboxSettings:
    """INBOX_HOST, INBOX_PORT, TAILBOARD_STATE_DIR, and ALERTMANAGER_URL or, on this machine, ALERTMANAGER_PORT."""

    host: str = "127.0.0.1"
    port: int = 8060
    file: Path = Path(".tailboard/inbox.jsonl")
    alertmanager_url: str = "http://127.0.0.1:9093"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "InboxSettings":
        """Unset and empty mean the default. ValueError with one sentence for a port or URL that is none."""
        port = _port(environment, "INBOX_PORT", "8060")
        state_dir = environment.get("TAILBOARD_STATE_DIR", "").strip() or ".tailboard"
        host = environment.get("INBOX_HOST", "").strip() or "127.0.0.1"
        url = environment.get("ALERTMANAGER_URL", "").strip()
        if not url:
            url = f"http://127.0.0.1:{_port(environment, 'ALERTMANAGER_PORT', '9093')}"
        if not re.match(r"https?://[^/\s]", url):
            raise ValueError(f"ALERTMANAGER_URL is {url!r}; expected a URL such as http://127.0.0.1:9093")
        return cls(host, port, Path(state_dir) / "inbox.jsonl", url)


def _port(environment: Mapping[str, str], variable: str, default: str) -> int:
    port = environment.get(variable, "").strip() or default
    if not re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) or not 1 <= int(port) <= 65535:
        raise ValueError(f"{variable} is {port!r}; expected a port from 1 to 65535")
    return int(port)


def main(environment: Mapping[str, str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    disable_created_metrics()  # type: ignore[no-untyped-call]  # has no annotations
    try:
        settings = InboxSettings.from_environment(environment)
        store = NoticeStore(settings.file, time.time)
        server = waitress.create_server(
            create_app(store, InboxMetrics(), time.time, Alertmanager(settings.alertmanager_url, time.time).held),
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
