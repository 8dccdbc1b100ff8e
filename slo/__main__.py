"""`python -m slo generate` writes what follows from slo.yaml; `python -m slo check` compares it with what is there."""

import argparse
import sys
from pathlib import Path

from slo.config import SloError, load
from slo.generate import artifacts, differences, write


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m slo", description="Rules, rule tests and dashboards from slo.yaml."
    )
    parser.add_argument("command", choices=["generate", "check"], help="write the files, or compare them")
    parser.add_argument("--slo", type=Path, default=Path("slo.yaml"), help="the SLO file (default: %(default)s)")
    parser.add_argument("--root", type=Path, default=Path(), help="where prometheus/ and grafana/ are (default: here)")
    arguments = parser.parse_args()
    try:
        files = artifacts(load(arguments.slo))
    except SloError as error:
        print(error, file=sys.stderr)
        return 64
    if arguments.command == "generate":
        try:
            write(files, arguments.root)
        except OSError as error:
            print(f"cannot write {error.filename}: {error.strerror}", file=sys.stderr)
            return 1
        print(f"{len(files)} files follow from {arguments.slo}")
        return 0
    lines = differences(files, arguments.root)
    for line in lines:
        print(line, file=sys.stderr)
    if lines:
        print("run `python -m slo generate` (make generate)", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
