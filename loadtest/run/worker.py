"""A generator process of a run: Locust's own worker, which ends with the process that started it."""

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


def main() -> None:
    """`python -m loadtest.run.worker PARENT_PID ARGUMENTS...`, the arguments being those of Locust."""
    parent = int(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends the run in order
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)  # it went before that call
    from locust.main import main as locust_main  # not before: it takes the process over

    sys.argv = ["locust", *sys.argv[2:]]
    locust_main()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
