"""Model workers: child processes, reached by one message per batch, with a warm spare to take over from a dead one.

The service's own process never loads the model's library: it would hold the interpreter lock for milliseconds a call
and stall the event loop. One child, the template, loads the model and serves nobody: workers are forked from it in
milliseconds and share its memory. A model whose library runs threads cannot be forked; its workers load it each.

Each child has a keeper thread that starts it, waits for its end and starts the next one. The kernel ends the children
with this process (PR_SET_PDEATHSIG), and those that were started rather than forked with their keeper, too.
"""

import contextlib
import ctypes
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from service.batching.errors import ModelDown, ModelFailed
from service.batching.records import Rows, Runner
from service.models import Model, ModelError, ModelInfo, ModelSpec, check_file, load, wire
from service.models.model import Array

log = logging.getLogger(__name__)

HANG_LIMIT_SECONDS: Final = 30.0  # in one batch; far beyond any honest model call
START_LIMIT_SECONDS: Final = 300.0  # importing, training or loading a large model on a slow disk
FORK_LIMIT_SECONDS: Final = 10.0  # takes 30 ms; a template that needs so much longer is stuck
_ROOT: Final = Path(__file__).resolve().parents[2]
_ONE_THREAD: Final = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
_LOAD_RETRY_SECONDS: Final = (0.5, 15.0)  # the first and the longest; loading takes seconds of CPU
_FORK_RETRY_SECONDS: Final = (0.05, 1.0)
_SOCKET_BUFFER_BYTES: Final = 1 << 20
_PR_SET_CHILD_SUBREAPER: Final = 36
_LEAST_HANG_LIMIT_SECONDS: Final = 5.0
_ADOPTION_SECONDS: Final = 1.0


def hang_limit_seconds(request_timeout_seconds: float) -> float:
    """When a batch has taken so long that all its callers were told 504 long ago, its worker is given up."""
    return min(HANG_LIMIT_SECONDS, max(_LEAST_HANG_LIMIT_SECONDS, 2 * request_timeout_seconds))


def start_runners(
    spec: ModelSpec,
    cache_dir: Path,
    allow_pickle: bool,
    workers: int,
    on_restart: Callable[[], None],
    hang_limit_seconds: float = HANG_LIMIT_SECONDS,
) -> tuple[ModelInfo, list[Runner]]:
    """Loads the model and returns once it can run. Raises ModelError with one sentence; nothing is left behind then.

    `workers` child processes and a spare, or with 0 the calling process itself. `on_restart` is called from some
    thread each time a worker had to be replaced.
    """
    if workers < 0:
        raise ValueError(f"workers is {workers}; expected 0 or more")
    check_file(spec, allow_pickle)
    if workers == 0:
        return _start_in_process(spec, cache_dir, allow_pickle)
    pool = WorkerPool(spec, cache_dir, allow_pickle, workers, on_restart)
    try:
        info = pool.start()
    except BaseException:
        pool.close()
        raise
    return info, [ProcessRunner(pool, hang_limit_seconds) for _ in range(workers)]


def _start_in_process(spec: ModelSpec, cache_dir: Path, allow_pickle: bool) -> tuple[ModelInfo, list[Runner]]:
    from service.models.worker import time_model

    model = load(spec, cache_dir, allow_pickle)
    if spec.kind in ("digits", "skops", "joblib"):
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        threadpool_limits(limits=1)
    model.warm_up()
    info = ModelInfo.from_json({**model.info.to_json(), "cost_samples": time_model(model)})
    return info, [ThreadRunner(model)]


def put_together(parts: Sequence[Rows]) -> Array:
    arrays = [np.asarray(part) for part in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


class ThreadRunner:
    """Runs the model in the batcher's own thread. Simple, but scikit-learn then stalls everything else here."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def run(self, group: Hashable, parts: Sequence[Rows]) -> tuple[Rows, float]:
        method = _method(group)
        rows = put_together(parts)
        started = time.perf_counter()
        try:
            result = self._model.run(method, rows)
        except Exception as error:
            raise ModelFailed(f"the model failed: {type(error).__name__}: {error}") from error
        return result, time.perf_counter() - started

    def join(self, results: Sequence[Rows]) -> Rows:
        return put_together(results)

    def ready(self) -> None:
        """Always."""

    @property
    def up(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing to end."""


def _method(group: Hashable) -> str:
    """A group is (method, dtype, features)."""
    if not isinstance(group, tuple):
        raise ModelFailed(f"the group {group!r} is none; expected (method, dtype, features)")
    return str(group[0])


class ProcessRunner:
    """One worker of a pool. A worker that dies or hangs takes its batch along and nothing else."""

    def __init__(self, pool: "WorkerPool", hang_limit_seconds: float) -> None:
        self._pool = pool
        self._hang_limit_seconds = hang_limit_seconds
        self._child: Child | None = pool.take()
        self._closed = False

    @property
    def pid(self) -> int | None:
        child = self._child
        return child.pid if child else None

    def run(self, group: Hashable, parts: Sequence[Rows]) -> tuple[Rows, float]:
        rows = put_together(parts)
        child = self._child
        if child is None or child.gone():  # while idle: no batch was lost, so none has to fail
            self.ready()  # deadlines are kept meanwhile, by another thread
            child = self._child
            if child is None:
                raise ModelDown("the model worker has died, and the service is shutting down")
        try:
            child.channel.send(wire.RUN, {"method": _method(group), **wire.array_meta(rows)}, wire.array_bytes(rows))
            kind, meta, payload = child.channel.receive(self._hang_limit_seconds)
        except EOFError as error:
            self._drop(child)
            raise ModelDown("the model worker died with this batch; another takes over") from error
        except TimeoutError as error:
            self._drop(child)
            raise ModelDown(
                f"the model worker did not answer within {self._hang_limit_seconds:g} s and was killed; "
                "another takes over"
            ) from error
        except OSError as error:
            self._drop(child)
            raise ModelDown(f"the model worker cannot be reached: {error}") from error
        if kind == wire.FAILED:
            raise ModelFailed(f"the model failed: {meta['error']}")
        return wire.array_from(meta, payload), meta["seconds"]

    def join(self, results: Sequence[Rows]) -> Rows:
        return put_together(results)

    @property
    def up(self) -> bool:
        child = self._child
        return (child is not None and not child.ended) or self._pool.has_spare

    def ready(self) -> None:
        child = self._child
        if child is not None and child.gone():
            self._drop(child)
        if self._child is None and not self._closed:
            self._child = self._pool.take()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._pool.release()

    def _drop(self, child: "Child") -> None:
        child.kill()
        child.close()
        self._child = None


class _Started:
    """A process of our own making."""

    def __init__(self, arguments: Sequence[str], fd: int, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            pass_fds=(fd,),
            process_group=0,  # Ctrl-C in a terminal goes to the whole foreground group
            env=environment,
        )
        self.pid = self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        return self._process.wait()


class _Forked:
    """A process that was forked for us, and that the kernel makes our child when the one between us ends."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._lock = threading.Lock()
        self._code: int | None = None

    def kill(self) -> None:
        with self._lock:  # once it is reaped, its number may be another's
            if self._code is None:
                os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Raises ChildProcessError if it never becomes our child."""
        give_up_at = time.monotonic() + _ADOPTION_SECONDS
        while True:
            try:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.001)
            else:
                break
        with self._lock:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code


class Child:
    """A process with the model in it, and the socket to it."""

    def __init__(self, sock: socket.socket, process: _Started | None) -> None:
        self._socket = sock
        self.channel = wire.Channel(sock)
        self._process: _Started | _Forked | None = process  # None: forked, and has not said its number yet
        self.ended = False
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    @classmethod
    def start(cls, spec: ModelSpec, cache_dir: Path, allow_pickle: bool) -> "Child":
        """A new process, which loads the model."""
        ours, theirs = _socket_pair()
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        with theirs:
            process = _Started(
                [
                    sys.executable,
                    *("-m", "service.models.worker"),
                    *(str(theirs.fileno()), str(os.getpid()), "1" if allow_pickle else "0", str(cache_dir), spec.text),
                ],
                theirs.fileno(),
                {**os.environ, **_ONE_THREAD, "PYTHONPATH": path},
            )
        return cls(ours, process)

    def fork(self) -> "Child":
        """A copy of this one, the template; OSError if it cannot be asked."""
        ours, theirs = _socket_pair()
        with theirs:
            try:
                socket.send_fds(self._socket, [b"f"], [theirs.fileno()])
            except BaseException:
                ours.close()
                raise
        return Child(ours, None)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def gone(self) -> bool:
        """An idle worker never speaks: whatever there is to read is the end of it."""
        return self.ended or bool(self._poll.poll(0))

    def await_ready(self) -> tuple[ModelInfo | None, bool]:
        """(the model, whether this is a template that forks), or (None, False) from a fork.

        Raises ModelError if the worker refuses the model, EOFError or TimeoutError if it never gets that far.
        """
        if self._process is None:
            _, meta, _ = self.channel.receive(FORK_LIMIT_SECONDS)
            self._process = _Forked(meta["pid"])
            self.channel.receive(FORK_LIMIT_SECONDS)
            return None, False
        kind, meta, _ = self.channel.receive(START_LIMIT_SECONDS)
        if kind == wire.REFUSED:
            raise ModelError(meta["error"])
        forks = bool(meta.pop("forks"))
        return ModelInfo.from_json(meta), forks

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        else:
            self._wake()  # not heard of yet; it reads the end and goes

    def wait(self) -> str:
        """Waits for the end; says how it ended."""
        code = None
        if self._process is not None:
            with contextlib.suppress(ChildProcessError):
                code = self._process.wait()
        self.ended = True
        self._wake()
        if code is None:
            return "nobody knows how"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"

    def close(self) -> None:
        """Gives the socket up. For whoever used it last: a thread that reads from a closed socket waits in vain."""
        self.channel.close()

    def _wake(self) -> None:
        """Whoever reads at either end reads the end."""
        with contextlib.suppress(OSError):  # the other end has gone already
            self._socket.shutdown(socket.SHUT_RDWR)


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    pair = socket.socketpair()
    for end in pair:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER_BYTES)
    return pair


class _Adoption:
    """While any pool is open, this process inherits what its children leave behind: the workers a template forked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools = 0

    def begin(self) -> None:
        self._change(1)

    def end(self) -> None:
        self._change(-1)

    def _change(self, by: int) -> None:
        with self._lock:
            self._pools += by
            if sys.platform == "linux":  # elsewhere no worker is forked
                ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(self._pools > 0))


_adoption: Final = _Adoption()


class WorkerPool:
    """Keeps one more worker alive than there are runners, and hands the ready ones out."""

    def __init__(
        self, spec: ModelSpec, cache_dir: Path, allow_pickle: bool, workers: int, on_restart: Callable[[], None]
    ) -> None:
        self._spec = spec
        self._cache_dir = cache_dir
        self._allow_pickle = allow_pickle
        self._workers = workers
        self._on_restart = on_restart
        self._changed = threading.Condition()
        self._children: set[Child] = set()  # all that run, the template too
        self._spares: deque[Child] = deque()  # ready and not in use
        self._template: Child | None = None
        self._forks = False  # whether the last child that loaded the model can be a template
        self._info: ModelInfo | None = None
        self._refusal: str | None = None  # why the model cannot be served, while starting
        self._started = False
        self._released = 0
        self._closed = False
        self._keepers: list[threading.Thread] = []
        _adoption.begin()

    def start(self) -> ModelInfo:
        """Returns once all workers are ready; the spare follows. The first child may train and store the model."""
        self._keep(loads=True)
        with self._changed:
            self._await(lambda: self._info is not None)
        for _ in range(self._workers + self._forks):
            self._keep(loads=False)
        with self._changed:
            self._await(lambda: len(self._spares) >= self._workers)
            self._started = True
            assert self._info is not None
            return self._info

    def _await(self, condition: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: self._refusal is not None or condition())
        if self._refusal is not None:
            raise ModelError(self._refusal)

    @property
    def has_spare(self) -> bool:
        return any(not child.ended for child in list(self._spares))

    def take(self) -> Child | None:
        """A ready worker, as soon as there is one; None if the pool is closed."""
        with self._changed:
            while not self._closed:
                while self._spares:
                    child = self._spares.popleft()
                    if not child.gone():
                        return child
                    child.close()
                self._changed.wait()
            return None

    def release(self) -> None:
        """A runner is done for good; the last one takes the pool along."""
        with self._changed:
            self._released += 1
            last = self._released >= self._workers
        if last:
            self.close()

    def close(self) -> None:
        """Ends all children and keepers. Idempotent."""
        with self._changed:
            first = not self._closed
            self._closed = True
            for child in self._children:
                child.kill()
            self._changed.notify_all()
        for keeper in self._keepers:
            if keeper is not threading.current_thread():
                keeper.join(timeout=5)
        if first:
            _adoption.end()

    # --- keepers ------------------------------------------------------------------------------------------------

    def _keep(self, loads: bool) -> None:
        number = len(self._keepers)
        keeper = threading.Thread(target=self._keep_one, args=(loads,), name=f"model-keeper-{number}", daemon=True)
        self._keepers.append(keeper)
        keeper.start()

    def _keep_one(self, loads: bool) -> None:
        """`loads`: its children load the model, whether or not there is a template to fork them from."""
        failures = 0
        while not self._closed:
            problem = self._live_one_life(loads)
            if problem is None:
                failures = 0
                continue
            first, longest = _FORK_RETRY_SECONDS if self._forks and not loads else _LOAD_RETRY_SECONDS
            retry_seconds = min(longest, first * 2.0 ** min(failures, 10))
            failures += 1
            with self._changed:
                if self._closed:
                    return
                if not self._started:
                    self._refusal = problem
                    self._changed.notify_all()
                    return
                log.error("a model worker could not be started, next try in %g s: %s", retry_seconds, problem)
                self._changed.wait_for(lambda: self._closed, retry_seconds)

    def _live_one_life(self, loads: bool) -> str | None:
        """One child from its start to its end; what was wrong if it never became ready."""
        template = None
        if not loads:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._template is not None or not self._forks)
                if self._closed:
                    return None
                template = self._template
        try:
            child = template.fork() if template else Child.start(self._spec, self._cache_dir, self._allow_pickle)
        except OSError as error:
            return f"the model worker process cannot be started: {error.strerror or error}"
        with self._changed:
            self._children.add(child)
            if self._closed:
                child.kill()
        problem = None
        died = False
        try:
            info, forks = child.await_ready()
        except ModelError as error:
            problem = str(error)
        except TimeoutError:
            (template or child).kill()
            child.kill()
            problem = f"the model {self._spec.text} was not ready in time"
        except (EOFError, OSError):
            child.kill()
            died = True
        else:
            with self._changed:
                if info is not None:
                    self._info, self._forks = info, forks
                if forks:
                    self._template = child
                else:
                    self._spares.append(child)
                self._changed.notify_all()
        end = child.wait()
        if died:
            problem = f"the model worker ended before the model {self._spec.text} was ready ({end}); is memory short?"
        self._bury(child, end, served=problem is None)
        return problem

    def _bury(self, child: Child, end: str, served: bool) -> None:
        """Takes a child that has ended off the books, and counts it if it was in use."""
        with self._changed:
            self._children.discard(child)
            template, spare = child is self._template, child in self._spares
            if template:
                self._template = None
            if spare:
                self._spares.remove(child)
            closed = self._closed
        if template or spare or not served:
            child.close()  # no runner has it
        if closed or not served:
            return
        role = "it was the template of the others" if template else "it was the spare" if spare else "replaced"
        log.warning("model worker %d ended (%s); %s", child.pid, end, role)
        if not (template or spare):
            try:
                self._on_restart()
            except Exception:
                log.exception("counting a restart failed")
