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
    from loadtest.analysis.verdict import EXIT_CODES, USAGE_ERROR
    from loadtest.run.options import UsageError

    if any(each in ("-h", "--help") for each in argv):
        from loadtest.run.options import parser

        parser().print_help()
        return 0
    from loadtest.run.program import TrialError, run

    try:
        return run(argv)
    except UsageError as error:
        print(f"loadtest run: {error}", file=sys.stderr)
        return USAGE_ERROR
    except TrialError as error:
        print(f"loadtest run: {error}", file=sys.stderr)
    except KeyboardInterrupt:  # later on Ctrl-C ends the run in order
        print("loadtest run: interrupted before the load began", file=sys.stderr)
    except Exception:  # Python would end with 1, which is FAIL here, and say so of a service that had no part in it
        logging.getLogger(__name__).exception("loadtest run: it broke")
    print("INVALID")
    return EXIT_CODES["INVALID"]


def _compare(argv: Sequence[str]) -> int:
    from loadtest.analysis.verdict import USAGE_ERROR
    from loadtest.compare import CompareError, run

    try:
        return run(argv)
    except CompareError as error:
        print(f"loadtest compare: {error}", file=sys.stderr)
        return USAGE_ERROR


def _tune(argv: Sequence[str]) -> int:
    from loadtest.analysis.verdict import EXIT_CODES, USAGE_ERROR
    from loadtest.run.options import UsageError

    if any(each in ("-h", "--help") for each in argv):
        from loadtest.tune.options import parser

        parser().print_help()
        return 0
    from loadtest.run.crew import TrialError
    from loadtest.tune.admin import AdminError
    from loadtest.tune.program import run
    from loadtest.tune.served import ServiceError

    try:
        return run(argv)
    except UsageError as error:
        print(f"loadtest tune: {error}", file=sys.stderr)
        return USAGE_ERROR
    except (AdminError, ServiceError, TrialError) as error:
        print(f"loadtest tune: {error}", file=sys.stderr)
    except KeyboardInterrupt:  # later on Ctrl-C ends the search in order
        print("loadtest tune: interrupted before anything was measured", file=sys.stderr)
        return _INTERRUPTED
    except Exception:  # Python would end with 1, which says that the objective cannot be met
        logging.getLogger(__name__).exception("loadtest tune: it broke")
    return EXIT_CODES["INVALID"]


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
