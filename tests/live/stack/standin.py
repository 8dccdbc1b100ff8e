"""A small program that plays a part of the stack: serves /healthz, and behaves well or badly as its arguments say."""

import argparse
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any


class Health(http.server.BaseHTTPRequestHandler):
    ready_at = 0.0

    def do_GET(self) -> None:
        self.send_response(200 if time.monotonic() >= self.ready_at else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--name", default="")
    parser.add_argument("--ready-after", type=float, default=0)
    parser.add_argument("--end-after", type=float)
    parser.add_argument("--code", type=int, default=0)
    parser.add_argument("--stubborn", action="store_true", help="ignores SIGTERM")
    parser.add_argument("--journal", type=Path, help="a line is added there when SIGTERM comes")
    parser.add_argument("--grandchild", type=Path, help="starts a process of its own and writes its pid there")
    arguments = parser.parse_args()

    def end(number: int, frame: FrameType | None) -> None:
        if arguments.journal:
            with arguments.journal.open("a") as file:
                file.write(f"{arguments.name}\n")
        if not arguments.stubborn:
            os._exit(0)

    signal.signal(signal.SIGTERM, end)
    print(f"{arguments.name} begins on CPUs {sorted(os.sched_getaffinity(0))}", flush=True)
    if arguments.grandchild:
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(300)"])
        arguments.grandchild.write_text(str(child.pid))
    if arguments.end_after is not None:

        def die() -> None:
            print("the last words of a standin", flush=True)
            os._exit(arguments.code)

        threading.Timer(arguments.end_after, die).start()
    Health.ready_at = time.monotonic() + arguments.ready_after
    http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), Health).serve_forever()


if __name__ == "__main__":
    main()
