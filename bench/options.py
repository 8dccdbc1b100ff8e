"""What the command line of `python -m bench` may say. Every default lives here."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.programs import ROOT
from bench.servers import PEERS

PARTS: Final = ("sklearn", "onnx", "latency", "large", "metrics", "overload", "loadgen", "memory")
LONG: Final = ("memory",)  # only if asked for by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    peers: tuple[str, ...] = ("mosec",)
    parts: tuple[str, ...] = tuple(part for part in PARTS if part not in LONG)
    rounds: int = 2
    connections: tuple[int, ...] = (1, 8, 32, 64, 128, 256)
    seconds: int = 3  # of each cell; wrk counts in whole seconds
    repeats: int = 5  # of the small measurements that are taken in turns
    quick: bool = False
    pin: bool = False
    out: Path = ROOT / "out" / "bench"


def read(arguments: Sequence[str]) -> Options:
    """Exits with a sentence and code 2, as argparse does, where they cannot be used."""
    standard = Options()
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Ours beside peers under the same load, and what of the targets is met.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--peers", type=_peers, default=" ".join(standard.peers), help=f"some of: {' '.join(PEERS)}")
    parser.add_argument("--only", type=_parts, default=",".join(standard.parts), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=_positive, default=standard.rounds, help="turns of every server")
    parser.add_argument("--connections", type=_connections, default=_text(standard.connections), help="of the load")
    parser.add_argument("--seconds", type=_positive, default=standard.seconds, help="length of each measurement")
    parser.add_argument("--quick", action="store_true", help="one round, few connections, 1 s each: only a glance")
    parser.add_argument("--pin", action="store_true", help="generator on the first CPU, servers on the others")
    parser.add_argument("--out", type=Path, default=standard.out, help="where report.md and result.json go")
    given = parser.parse_args(arguments)
    options = Options(
        peers=given.peers,
        parts=given.only,
        rounds=1 if given.quick else given.rounds,
        connections=(32, 128) if given.quick else given.connections,
        seconds=1 if given.quick else given.seconds,
        repeats=1 if given.quick else standard.repeats,
        quick=given.quick,
        pin=given.pin,
        out=given.out.absolute(),
    )
    return options


def _peers(text: str) -> tuple[str, ...]:
    return _some_of(text, PEERS)


def _parts(text: str) -> tuple[str, ...]:
    chosen = _some_of(text, PARTS)
    if not chosen:
        raise argparse.ArgumentTypeError(f"nothing is asked for; expected some of {', '.join(PARTS)}")
    return chosen


def _some_of(text: str, known: Sequence[str]) -> tuple[str, ...]:
    names = text.replace(",", " ").split()
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is not known; expected some of {', '.join(known)}")
    return tuple(name for name in known if name in names)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 3600):
        raise argparse.ArgumentTypeError(f"{text!r}; expected a whole number from 1 to 3600")
    return int(text)


def _connections(text: str) -> tuple[int, ...]:
    numbers = tuple(sorted({_positive(number) for number in text.replace(",", " ").split()}))
    if not numbers:
        raise argparse.ArgumentTypeError("no number; expected whole numbers such as 1,32,128")
    return numbers


def _text(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))
