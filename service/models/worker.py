"""The child process with the model: `python -m service.models.worker FD PARENT_PID ALLOW_PICKLE CACHE_DIR MODEL`.

Loads the model and says READY or REFUSED. Where it can be forked it is the template from then on: for each socket it is
sent, it forks a worker that says READY there. A worker answers one batch at a time until the other end of its socket
closes. Ctrl-C and SIGTERM are the parent's business: it drains first and needs its workers for that.
"""

import ctypes
import gc
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Final, NoReturn

import numpy as np

from service.models import Model, ModelError, load, parse_model, wire

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_TIMED_ROWS: Final = (1, 32)
_TIMED_CALLS: Final = 10
_TIMING_BUDGET_SECONDS: Final = 1.0  # for a model so slow that timing it would hold up the start


def main(arguments: list[str]) -> int:
    fd, parent, allow_pickle, cache_dir, text = arguments
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if not _die_with(int(parent)):
        return 0
    sock = socket.socket(fileno=int(fd))
    channel = wire.Channel(sock)
    try:
        model = load(parse_model(text), Path(cache_dir), allow_pickle == "1")
        model.warm_up()
        meta = {**model.info.to_json(), "cost_samples": time_model(model)}
    except ModelError as error:
        channel.send(wire.REFUSED, {"error": str(error)})
        return 1
    except Exception as error:  # noqa: BLE001 - said over the wire as one sentence; a traceback would only hide it
        channel.send(wire.REFUSED, {"error": f"the model {text} cannot be loaded: {describe(error)}"})
        return 1
    _tidy()
    forks = can_fork()
    _name_process("model-template" if forks else "model-worker")
    try:
        channel.send(wire.READY, {**meta, "forks": forks})
        if forks:
            _be_template(sock, model, int(parent))
        _serve(channel, model)
    except EOFError:
        pass
    return 0


def can_fork() -> bool:
    """Only a process of a single thread: any other's locks stay locked in the copy for ever.

    And only on Linux, where the copy can become the child of the service itself.
    """
    return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1


def _be_template(sock: socket.socket, model: Model, service: int) -> NoReturn:
    """Forks a worker for each socket that comes in; ends with EOFError."""
    while True:
        message, fds, _, _ = socket.recv_fds(sock, 1, 1)
        if not message:
            raise EOFError("the service is gone")
        (fd,) = fds
        try:
            middle = os.fork()
        except OSError as error:  # no memory: the service sees its socket close, and asks again later
            print(f"service: a model worker cannot be forked: {error.strerror}", file=sys.stderr)
        else:
            if middle == 0:
                sock.close()
                _fork_again(socket.socket(fileno=fd), model, service)
            os.waitpid(middle, 0)
        os.close(fd)


def _fork_again(sock: socket.socket, model: Model, service: int) -> NoReturn:
    """In the copy. It forks once more, tells the number of that process and ends.

    So the worker is left to the service, which waits for it and ends with it, and it outlives the template.
    """
    code = 1
    try:
        middle = os.getpid()
        channel = wire.Channel(sock)
        if worker := os.fork():
            channel.send(wire.READY, {"pid": worker})
            code = 0
        else:
            while os.getppid() == middle:
                time.sleep(0.0002)
            if _die_with(service):
                _name_process("model-worker")
                model.warm_up()  # touches what the fork left to be mapped
                channel.send(wire.READY, {})
                _serve(channel, model)
    except EOFError:
        code = 0
    except Exception as error:  # noqa: BLE001 - nothing of the template's own program may run in the copy
        print(f"service: a model worker failed: {describe(error)}", file=sys.stderr)
    finally:
        os._exit(code)  # what the model's library registered for its end is the template's


def _serve(channel: wire.Channel, model: Model) -> NoReturn:
    while True:
        _answer(channel, model)


def _answer(channel: wire.Channel, model: Model) -> None:
    _, meta, payload = channel.receive()
    started = time.perf_counter()
    try:
        result = model.run(meta["method"], wire.array_from(meta, payload))
        seconds = time.perf_counter() - started
    except Exception as error:  # noqa: BLE001 - whatever a model raises about rows is for their caller, over the wire
        channel.send(wire.FAILED, {"error": describe(error)})
        return
    channel.send(wire.RESULT, {"seconds": seconds, **wire.array_meta(result)}, wire.array_bytes(result))


def describe(error: BaseException) -> str:
    """An exception as one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"


def time_model(model: Model) -> list[tuple[int, float]]:
    """(rows, seconds) of some calls on rows of zeros, so that the cost of a batch is known before the first request."""
    info = model.info
    samples: list[tuple[int, float]] = []
    if info.features is None:
        return samples
    give_up_at = time.perf_counter() + _TIMING_BUDGET_SECONDS
    for rows in _TIMED_ROWS:
        batch = np.zeros((rows, info.features), dtype=info.input_dtype)
        for _ in range(_TIMED_CALLS):
            started = time.perf_counter()
            if started > give_up_at:
                return samples
            model.run(info.methods[0], batch)
            samples.append((rows, time.perf_counter() - started))
    return samples


def _tidy() -> None:
    """Loading a file of some hundred trees leaves 50 MB of freed memory behind; and the model is never to be walked."""
    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _name_process(name: str) -> None:
    """What `top` and `ps -o comm` show; at most 15 letters."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode())


def _die_with(parent: int) -> bool:
    """Asks the kernel to end this process with its parent, even in the middle of a batch; False if it is gone already.

    Elsewhere than on Linux the closed socket has to do.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
