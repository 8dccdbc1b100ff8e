"""The first instant of a child: tie its life to its parent's, choose its CPUs, become the program.

Run as a script, `launch.py PARENT_PID CPUS PROGRAM [ARGUMENT...]`, with CPUs as `0,1` or empty. It costs about 30 ms a
part; `preexec_fn`, the other way to do this, is unsafe where the parent has threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(argv: list[str]) -> int:
    parent, cpus, program = int(argv[1]), argv[2], argv[3:]
    if sys.platform == "linux":
        # SIGKILL rather than SIGTERM: nobody will be left to see to it that a polite request was heeded.
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if cpus:
            os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    if os.getppid() != parent:  # it ended before the line above could tie us to it
        return 1
    try:
        os.execvp(program[0], program)
    except OSError as error:
        print(f"cannot run {program[0]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv))
