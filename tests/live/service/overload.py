"""More load than the model can take, counted honestly: `python -m tests.live.service.overload PORT ADMIN_PORT ...`.

Run it against a service that is up, such as one of 500 rows/s:

    SERVICE_MODEL='synthetic?fixed_seconds=0&per_row_seconds=0.002&features=3' python -m service
    python -m tests.live.service.overload 8000 8001 --rate 5000 --seconds 30 --capacity 500
"""

import argparse
import http.client
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.live.service.openloop import Answer, Client, counts, percentile, post

BODY = b'{"instances": [[1, 2, 3]]}'


@dataclass
class Outcome:
    """What came of an overload."""

    answers: list[Answer]
    began: float
    seconds: float
    deadline_seconds: float
    client_late_seconds: float
    rejected: dict[str, float]  # by reason, as the service counts
    model_rows: float  # that the model saw
    probes: list[tuple[str, int, float]] = field(default_factory=list)  # path, status, seconds

    @property
    def statuses(self) -> Counter[int]:
        return counts(self.answers)

    @property
    def in_time(self) -> list[Answer]:
        """2xx inside the deadline, from the scheduled instant."""
        return [one for one in self.answers if one.status == 200 and one.seconds <= self.deadline_seconds]

    @property
    def goodput(self) -> float:
        """In time per second while load was offered; what was still answered after that does not count."""
        end = self.began + self.seconds
        return sum(one.at + one.seconds <= end for one in self.in_time) / self.seconds

    def of(self, status: int) -> list[Answer]:
        return [one for one in self.answers if one.status == status]


def metrics(admin_port: int) -> dict[str, float]:
    """All samples of /metrics now, by name and labels as written."""
    connection = http.client.HTTPConnection("127.0.0.1", admin_port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line[0] != "#"}


def offer(port: int, admin_port: int, client: Client, seconds: float, deadline_seconds: float = 1.0) -> Outcome:
    """Runs the client for so long while /healthz and /metrics are asked for twice a second."""
    before = metrics(admin_port)
    ended = threading.Event()
    probes: list[tuple[str, int, float]] = []

    def probe() -> None:
        while not ended.wait(0.25):
            for path, at in (("/healthz", port), ("/healthz", admin_port), ("/metrics", admin_port)):
                began = time.monotonic()
                connection = http.client.HTTPConnection("127.0.0.1", at, timeout=10)
                try:
                    connection.request("GET", path)
                    response = connection.getresponse()
                    response.read()
                    probes.append((path, response.status, time.monotonic() - began))
                except OSError:
                    probes.append((path, 0, time.monotonic() - began))
                finally:
                    connection.close()

    prober = threading.Thread(target=probe)
    prober.start()
    began = time.monotonic()
    try:
        answers = client.run(seconds)
    finally:
        ended.set()
        prober.join()
    after = metrics(admin_port)
    gained = {name: value - before.get(name, 0.0) for name, value in after.items()}
    reason = re.compile(r'inference_rejected_total\{.*reason="(\w+)"')
    rejected = {match[1]: value for name, value in gained.items() if value and (match := reason.match(name))}
    rows = sum(value for name, value in gained.items() if name.startswith("inference_batch_rows_sum"))
    return Outcome(answers, began, seconds, deadline_seconds, client.late_seconds, rejected, rows, probes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("admin_port", type=int)
    parser.add_argument("--rate", type=float, default=5000.0, help="arrivals per second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--capacity", type=float, default=500.0, help="rows per second of the model")
    parser.add_argument("--patience-seconds", type=float, default=30.0, help="of a client, which then closes")
    parser.add_argument("--retries", type=int, default=0, help="of a client that gave up, at once")
    options = parser.parse_args()
    client = Client(options.port, post(BODY), options.rate, options.patience_seconds, options.retries)
    outcome = offer(options.port, options.admin_port, client, options.seconds)
    print(
        f"offered {len(outcome.answers)} in {outcome.seconds:g} s, by status {dict(sorted(outcome.statuses.items()))}"
    )
    share = outcome.goodput / options.capacity
    print(f"2xx inside {outcome.deadline_seconds:g} s: {len(outcome.in_time)}, {share:.1%} of capacity")
    print(f"rows the model saw: {outcome.model_rows:.0f}; rejected, by reason: {outcome.rejected}")
    if shed := outcome.of(429):
        print(f"429: p50 {percentile(shed, 0.5) * 1e3:.1f} ms, p99 {percentile(shed, 0.99) * 1e3:.1f} ms, ", end="")
        print(f"{sum(not one.retry_after for one in shed)} without Retry-After")
    slowest = max(seconds for _, _, seconds in outcome.probes)
    probed = dict(Counter(status for _, status, _ in outcome.probes))
    print(f"{len(outcome.probes)} probes, by status {probed}, slowest {slowest:.3f} s")
    print(f"the client itself was late by at most {outcome.client_late_seconds * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
