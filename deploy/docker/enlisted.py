"""enlisted.py MASTER PORT: exit status 0 when Locust's master counts this container among its workers, else 1.

A worker listens nowhere, so its health check asks the master's web UI. Like healthy.py it imports as little as it can:
it runs every few seconds beside the load that is being measured.
"""

import json
import socket
import sys
from typing import Any

PATH = "/stats/requests"
TIMEOUT_SECONDS = 2.0
PRESENT = ("ready", "spawning", "running")  # Locust's names for the states of a worker that can take a load


def asked(host: str, port: int, path: str) -> bytes:
    """The body of the answer to a GET. Raises OSError when there is none in time, ValueError when it is not a 200."""
    with socket.create_connection((host, port), TIMEOUT_SECONDS) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
        received = b""
        while part := connection.recv(65536):
            received += part
    head, _, body = received.partition(b"\r\n\r\n")
    line = head.split(b"\r\n", 1)[0].decode("latin-1")
    if line.split(" ")[1:2] != ["200"]:
        raise ValueError(f"GET {path} at {host}:{port} answered {line!r}; expected status 200")
    return body


def state_of(hostname: str, statistics: dict[str, Any]) -> str | None:
    """The state of the worker on that host, whose id is the host's name and something random; None without one.

    A container that was restarted has an older entry beside its own until the master gives that one up.
    """
    states = [worker["state"] for worker in statistics.get("workers", ()) if worker["id"].startswith(f"{hostname}_")]
    return next((state for state in states if state in PRESENT), states[0] if states else None)


def main(arguments: list[str]) -> int:
    host, port, hostname = arguments[0], int(arguments[1]), socket.gethostname()
    try:
        state = state_of(hostname, json.loads(asked(host, port, PATH)))
    except (OSError, ValueError) as error:
        print(f"the master does not say: {error}")
        return 1
    if state in PRESENT:
        return 0
    print(f"the master at {host} has {'no worker' if state is None else f'a worker that is {state}'} on {hostname}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
