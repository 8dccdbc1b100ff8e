"""Shows or changes the batching knobs of every replica of the service, from inside the container network.

    docker compose exec service deploy/docker/with-admin-token.sh python deploy/docker/batching.py
    docker compose exec service deploy/docker/with-admin-token.sh python deploy/docker/batching.py max_batch_rows=1

Through the published admin port a change would reach one replica of several. Exit status 0 only if all were reached.
"""

import http.client
import json
import os
import socket
import sys
from typing import Any

SERVICE = "service"
ADMIN_PORT = 8001
PATH = "/admin/batching"
TIMEOUT_SECONDS = 5.0


def replicas(name: str, port: int) -> list[str]:
    """Addresses of all replicas, which the container network's DNS gives under one name."""
    found = socket.getaddrinfo(name, port, socket.AF_INET, socket.SOCK_STREAM)
    return sorted({str(address[4][0]) for address in found})


def change_from(arguments: list[str]) -> dict[str, Any]:
    """`max_batch_rows=1 policy=fixed` as the body of a PATCH; what a value means is the service's to check."""
    change: dict[str, Any] = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not name or not equals:
            raise ValueError(f"{argument!r} is not NAME=VALUE, such as max_batch_rows=1")
        try:
            change[name] = json.loads(text)
        except json.JSONDecodeError:
            change[name] = text
    return change


def ask(address: str, port: int, change: dict[str, Any], token: str) -> tuple[int, str]:
    """(status, body) of a GET, or of a PATCH when there is something to change. Raises OSError, HTTPException."""
    connection = http.client.HTTPConnection(address, port, timeout=TIMEOUT_SECONDS)
    try:
        if change:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request("PATCH", PATH, json.dumps(change), headers)
        else:
            connection.request("GET", PATH)
        answer = connection.getresponse()
        return answer.status, answer.read().decode().strip()
    finally:
        connection.close()


def main(arguments: list[str]) -> int:
    try:
        change = change_from(arguments)
        addresses = replicas(SERVICE, ADMIN_PORT)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 64
    failed = 0
    for address in addresses:
        try:
            status, body = ask(address, ADMIN_PORT, change, os.environ.get("SERVICE_ADMIN_TOKEN", ""))
        except (OSError, http.client.HTTPException) as error:
            status, body = 0, f"does not answer: {error}"
        failed += status != 200
        print(f"{address} {body}", file=sys.stdout if status == 200 else sys.stderr)
    if failed:
        print(f"{failed} of {len(addresses)} replicas failed; the others are as shown", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
