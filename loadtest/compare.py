"""`python -m loadtest compare A B`: two results side by side, in the terminal and as a page."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from loadtest.analysis import compare as comparing
from loadtest.analysis.report import compared_html
from loadtest.analysis.result import ResultError, loads


class CompareError(Exception):
    """The two cannot be compared as asked: one sentence."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """argparse would end with 2, which is INVALID here."""
        raise CompareError(message)


def run(argv: Sequence[str]) -> int:
    """Compare what the arguments name; 0, whatever the difference is. CompareError; SystemExit after --help."""
    parser = _Parser(
        prog="python -m loadtest compare",
        description="Two results side by side, and whether their differences are more than chance.",
        epilog="exit codes: 0 compared, whatever came of it; 64 the command cannot be used as it is.",
    )
    parser.add_argument("a", metavar="A", help="a result.json, or the folder that a run wrote")
    parser.add_argument("b", metavar="B", help="the other one")
    parser.add_argument("--out", metavar="FILE", help="write a page with both, such as out/compared.html")
    options = parser.parse_args(list(argv))
    a, b = _read(options.a), _read(options.b)
    names = _names(options.a, options.b)
    print(comparing.told(a, b, names))
    if options.out is not None:
        page = Path(options.out)
        try:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(compared_html(a, b, comparing.compared(a, b, names)), encoding="utf-8")
        except OSError as error:
            raise CompareError(
                f"--out is {options.out!r}: {error.strerror or error}; expected a file to write"
            ) from None
        print(f"\npage: {page}")
    return 0


def _read(where: str) -> dict[str, Any]:
    path = Path(where)
    if path.is_dir():
        path /= "result.json"
    try:
        return loads(path.read_bytes())
    except OSError as error:
        raise CompareError(f"{path}: {error.strerror or error}; expected a result.json or a run's folder") from None
    except ResultError as error:
        raise CompareError(f"{path}: {error}") from None


def _names(a: str, b: str) -> tuple[str, str]:
    """What people call them: the folders' own names where those differ."""
    first, second = (Path(each).parent.name if Path(each).name == "result.json" else Path(each).name for each in (a, b))
    return (first, second) if first and second and first != second else ("A", "B")
