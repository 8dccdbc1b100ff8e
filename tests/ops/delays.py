"""`python -m tests.ops.delays`: how long the local profile takes, from a breach to the page in the inbox and from the
recovery to "resolved" there. Median and worst of five breaches with each pair of programs; about four minutes.

Not a test and not in CI: the tests hold the promise, this gives the figures. Every breach has an alert path of its own,
all at once, each begun at another moment of the scrape and evaluation intervals, after two minutes of good traffic: the
long window is full, which is when a breach takes longest to show. 10% of requests are slow, the least that is promised.
"""

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from stack.binaries import Binaries, obtain, version
from tests.newer_binaries import obtain_newer
from tests.ops.alert_path.world import running

BREACHES: Final = 5
HISTORY_SECONDS: Final = 122.0
BURNING_SECONDS: Final = 5.0  # after the page
Delays = tuple[float, float]


def one_breach(directory: Path, binaries: Binaries, wait_seconds: float) -> Delays:
    """(breach → page, recovery → resolved) in seconds, at the real inbox."""
    with running(directory, binaries, with_inbox=True) as world:
        time.sleep(HISTORY_SECONDS + wait_seconds)
        assert not world.webhook.notices(), "an alert without a breach"
        breach = world.service.take(slow=0.1)
        [page] = world.webhook.wait("LatencySLOBreach", "firing", 90)
        time.sleep(BURNING_SECONDS + wait_seconds)  # the page comes at a fixed moment of the evaluation interval
        recovery = world.service.take(slow=0.0)
        [resolved] = world.webhook.wait("LatencySLOBreach", "resolved", 150)
        return page.at - breach, resolved.at - recovery


def measure(pairs: Sequence[Binaries]) -> list[list[Delays]]:
    """All breaches of all pairs side by side. One that goes wrong is left out, and its thread says why."""
    results: list[list[Delays]] = [[] for _ in pairs]
    with tempfile.TemporaryDirectory(prefix="tailboard-delays-") as home:

        def play(pair: int, number: int) -> None:
            directory = Path(home, f"{pair}-{number}")
            directory.mkdir()
            results[pair].append(one_breach(directory, pairs[pair], number * 5 / BREACHES))

        threads = [
            threading.Thread(target=play, args=(pair, number), daemon=True)
            for pair in range(len(pairs))
            for number in range(BREACHES)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


def main() -> int:
    pairs = (obtain(say=lambda line: None), obtain_newer())
    complete = True
    for binaries, delays in zip(pairs, measure(pairs), strict=True):
        print(f"{version(binaries.prometheus)}; {version(binaries.alertmanager)}")
        complete = complete and len(delays) == BREACHES
        if not delays:
            print("  no breach was measured; the errors above say why")
            continue
        for name, seconds in zip(("breach → page", "recovery → resolved"), zip(*delays, strict=True), strict=True):
            shown = " ".join(f"{value:.1f}" for value in sorted(seconds))
            print(f"  {name}: median {statistics.median(seconds):.1f} s, worst {max(seconds):.1f} s ({shown})")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
