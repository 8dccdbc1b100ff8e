"""`python -m loadtest`: a run with a verdict, two results side by side, and the search for the best knobs."""

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Final

# Other imports are made where they are used: they take a second, in which Ctrl-C is to end in a sentence too.

_INTERRUPTED: Final = 130  # what shells say of a program that Ctrl-C ended; no verdict
_USAGE: Final = """usage: python -m loadtest run [OPTIONS]      send a load, judge it, write result.json and report.html
       python -m loadtest compare A B        two results side by side: is the difference real?
       python -m loadtest tune [OPTIONS]     the batch and wait that give the most throughput inside the objective

Each has --help. For Locust's web UI: locust -f loadtest/locustfile.py"""


def _run(argv: Sequence[str]) -> int:
    from loadtest.analysis.verdict import EXIT_CODES

    if _asks_for_help(argv):
        from loadtest.run.options import parser

        parser().print_help()
        return 0
    from loadtest.run.program import run

    try:
        code = _code("loadtest run", lambda: run(argv))
    except KeyboardInterrupt:  # later on Ctrl-C ends the run in order
        print("loadtest run: interrupted before the load began", file=sys.stderr)
        code = None
    if code is None:
        print("INVALID")
        return EXIT_CODES["INVALID"]
    return code


def _compare(argv: Sequence[str]) -> int:
    from loadtest.analysis.verdict import USAGE_ERROR
    from loadtest.compare import CompareError, run

    try:
        return run(argv)
    except CompareError as error:
        print(f"loadtest compare: {error}", file=sys.stderr)
        return USAGE_ERROR


def _tune(argv: Sequence[str]) -> int:
    from loadtest.analysis.verdict import EXIT_CODES

    if _asks_for_help(argv):
        from loadtest.tune.options import parser

        parser().print_help()
        return 0
    from loadtest.tune.program import run

    try:
        code = _code("loadtest tune", lambda: run(argv))
    except KeyboardInterrupt:  # later on Ctrl-C ends the search in order
        print("loadtest tune: interrupted before anything was measured", file=sys.stderr)
        return _INTERRUPTED
    return EXIT_CODES["INVALID"] if code is None else code


def _asks_for_help(argv: Sequence[str]) -> bool:
    """Told before the program itself is imported, which lets gevent take this process over."""
    return any(each in ("-h", "--help") for each in argv)


def _code(name: str, program: Callable[[], int]) -> int | None:
    """The program's exit code; None, and on standard error why, where it could say nothing of the service."""
    from loadtest.analysis.verdict import USAGE_ERROR
    from loadtest.errors import CannotGoOn, UsageError

    try:
        return program()
    except UsageError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except CannotGoOn as error:
        print(f"{name}: {error}", file=sys.stderr)
    except Exception:  # Python would end with 1, which is FAIL here, and say so of a service that had no part in it
        logging.getLogger(__name__).exception("%s: it broke", name)
    return None


def _dispatch(argv: Sequence[str]) -> int:
    from loadtest.analysis.verdict import USAGE_ERROR

    commands: dict[str, Callable[[Sequence[str]], int]] = {"run": _run, "compare": _compare, "tune": _tune}
    if argv and argv[0] in commands:
        return commands[argv[0]](argv[1:])
    if argv and argv[0] in ("-h", "--help"):
        print(_USAGE)
        return 0
    what = f"unknown command {argv[0]!r}" if argv else "a command is missing"
    print(f"loadtest: {what}\n{_USAGE}", file=sys.stderr)
    return USAGE_ERROR


def main(argv: Sequence[str]) -> int:
    """Do what the command line asks; the exit code."""
    try:
        return _dispatch(argv)
    except KeyboardInterrupt:
        print("loadtest: interrupted before it had begun", file=sys.stderr)
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
