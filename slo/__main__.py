"""`python -m slo`: `generate` what follows from slo.yaml, `check` it against what is there, `explain` it in words."""

import argparse
import math
import os
import sys
from pathlib import Path
from typing import Final

from slo.config import SloError, load
from slo.explain import explain
from slo.generate import artifacts, differences, write
from slo.tuned import Tuned
from slo.tuned import load as load_tuned

_TUNED: Final = Path("out/tune/frontier.json")  # where `make tune` leaves it


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; expected a number above 0 and up to 1, such as 0.03")
    return share


def _tuned(asked: Path | None) -> Tuned | None:
    """What `asked` holds; SloError if it says nothing. The usual place may say nothing, and that is told."""
    if asked is not None:
        return load_tuned(asked)
    if not _TUNED.exists():
        return None
    try:
        return load_tuned(_TUNED)
    except SloError as error:
        print(f"without the tuner's word: {error}", file=sys.stderr)
        return None


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m slo", description="Rules, rule tests, dashboards and what a cluster takes, from slo.yaml."
    )
    parser.add_argument(
        "command",
        choices=["generate", "check", "explain"],
        help="write the files; compare them; or tell in plain words what would page",
    )
    parser.add_argument(
        "--bad",
        type=_share,
        action="append",
        default=[],
        metavar="SHARE",
        help="explain: a share of bad requests, 0.03",
    )
    parser.add_argument(
        "--slo",
        type=Path,
        default=Path(os.environ.get("SLO_FILE") or "slo.yaml"),
        help="the SLO file (default: SLO_FILE, else slo.yaml)",
    )
    parser.add_argument(
        "--tuned",
        type=Path,
        metavar="FILE",
        help=f"explain: what the tuner confirmed (default: {_TUNED}, if a rate is confirmed there)",
    )
    parser.add_argument(
        "--root", type=Path, default=Path(), help="where prometheus/, grafana/ and deploy/ are (default: here)"
    )
    arguments = parser.parse_args()
    try:
        slo = load(arguments.slo)
        if arguments.command == "explain":
            print(explain(slo, arguments.bad, _tuned(arguments.tuned)))
            return 0
    except SloError as error:
        print(error, file=sys.stderr)
        return 64
    files = artifacts(slo)
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
