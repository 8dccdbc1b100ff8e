"""`python -m stack.live`: reads the environment, listens, serves until a signal."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

from waitress.server import create_server

from stack.live.catalogue import Catalogue
from stack.live.gather import QUERIES_AT_ONCE, Gatherer
from stack.live.prometheus import Prometheus
from stack.live.settings import LiveSettings, SettingsError
from stack.live.web import create_app, plotly_script

# A viewer's request may wait for a slow Prometheus; others must still find a thread.
_THREADS = 24


def main() -> int:
    try:
        settings = LiveSettings.from_environment(os.environ)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 1
    prometheus = Prometheus(settings.prometheus_url, settings.query_timeout_seconds, QUERIES_AT_ONCE)
    gatherer = Gatherer(prometheus, settings.scrape_seconds, settings.page_timeout_seconds)
    app = create_app(settings, Catalogue(settings.dashboards_dir), gatherer)
    try:
        server = create_server(
            app,
            host=settings.host,
            port=settings.port,
            threads=_THREADS,
            ident=None,
            clear_untrusted_proxy_headers=True,
        )
    except OSError as error:
        print(
            f"the live page cannot listen on {settings.host}:{settings.port} "
            f"({(error.strerror or str(error)).lower()}); LIVE_PORT and LIVE_HOST move it",
            file=sys.stderr,
        )
        return 1
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=plotly_script, args=(True,), daemon=True).start()  # ready before the first viewer asks
    port = getattr(server, "effective_port", settings.port)
    print(f"live page on http://{settings.host}:{port}/ from Prometheus at {prometheus.shown_url}", flush=True)
    try:
        server.run()
    finally:
        server.close()
        gatherer.close()
    return 0


def _leave(signum: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
