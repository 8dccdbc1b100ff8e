"""L6: a generator keeps nothing of a request that is over. `make bench BENCH="--only memory"` does this with 10⁷."""

import json
import subprocess
import sys
from pathlib import Path

REQUESTS = 150_000
MOST_GROWTH_BYTES = 4_000_000  # 30 bytes a request; a list with one float in it for each would be twice that


def test_memory_is_flat_over_many_requests(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.loadgen_memory", "--requests", str(REQUESTS), "--samples"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    readings = [json.loads(line) for line in done.stdout.splitlines()]
    assert readings[-1]["requests"] >= REQUESTS
    first = next(each for each in readings if each["requests"] >= REQUESTS / 10)
    grown = max(each["resident_bytes"] for each in readings) - first["resident_bytes"]
    assert grown < MOST_GROWTH_BYTES, readings
