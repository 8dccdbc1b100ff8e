"""Model workers: child processes, reached by one message per batch, with a warm spare to take over from a dead one.

The service's own process never loads the model's library: it would hold the interpreter lock for milliseconds a call
and stall the event loop. Each child has a keeper thread that starts it, waits for its end and starts the next one;
the kernel ties a child's life to that thread (PR_SET_PDEATHSIG), so keepers live as long as the pool.
"""

import contextlib
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
_ROOT: Final = Path(__file__).resolve().parents[2]
_ONE_THREAD: Final = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
_FIRST_RETRY_SECONDS: Final = 0.5
_LONGEST_RETRY_SECONDS: Final = 15.0
_SOCKET_BUFFER_BYTES: Final = 1 << 20


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
        if child is None or child.gone():  # while idle: no batch was lost, so none has to fail if a spare is at hand
            child = self._child = self._pool.take(wait=False)
            if child is None:
                raise ModelDown("the model worker has died; another is being started")
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
        self._child = None


class Child:
    """A worker process and the socket to it."""

    def __init__(self, spec: ModelSpec, cache_dir: Path, allow_pickle: bool) -> None:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                end.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER_BYTES)
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *("-m", "service.models.worker"),
                    *(str(theirs.fileno()), str(os.getpid()), "1" if allow_pickle else "0", str(cache_dir), spec.text),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,  # Ctrl-C in a terminal goes to the whole foreground group
                env={**os.environ, **_ONE_THREAD, "PYTHONPATH": path},
            )
        self.channel = wire.Channel(ours)
        self.pid = self._process.pid
        self._ended = False
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)

    def gone(self) -> bool:
        """An idle worker never speaks: whatever there is to read is the end of it."""
        return self._ended or bool(self._poll.poll(0))

    def await_ready(self) -> ModelInfo:
        """Raises ModelError if the worker refuses the model, EOFError or TimeoutError if it never gets that far."""
        kind, meta, _ = self.channel.receive(START_LIMIT_SECONDS)
        if kind == wire.REFUSED:
            raise ModelError(meta["error"])
        return ModelInfo.from_json(meta)

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> str:
        """Waits for the end; says how it ended."""
        code = self._process.wait()
        self._ended = True  # before its descriptor is given up, which may then become another's
        self.channel.close()
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"


class WorkerPool:
    """Keeps one more child alive than there are runners, and hands the ready ones out."""

    def __init__(
        self, spec: ModelSpec, cache_dir: Path, allow_pickle: bool, workers: int, on_restart: Callable[[], None]
    ) -> None:
        self._spec = spec
        self._cache_dir = cache_dir
        self._allow_pickle = allow_pickle
        self._workers = workers
        self._on_restart = on_restart
        self._changed = threading.Condition()
        self._children: set[Child] = set()  # all that run
        self._spares: deque[Child] = deque()  # ready and not in use
        self._info: ModelInfo | None = None
        self._refusal: str | None = None  # why the model cannot be served, while starting
        self._started = False
        self._released = 0
        self._closed = False
        self._keepers: list[threading.Thread] = []

    def start(self) -> ModelInfo:
        """Returns once all workers are ready; the spare follows. The first one may train and store the model."""
        self._keep()
        with self._changed:
            info = self._await_ready(1)
        for _ in range(self._workers):
            self._keep()
        with self._changed:
            self._await_ready(self._workers)
            self._started = True
        return info

    def _await_ready(self, count: int) -> ModelInfo:
        self._changed.wait_for(lambda: self._refusal is not None or len(self._spares) >= count)
        if self._refusal is not None:
            raise ModelError(self._refusal)
        assert self._info is not None
        return self._info

    def take(self, wait: bool = True) -> Child | None:
        """A ready child, or None if the pool is closed (or none is ready and `wait` is false)."""
        with self._changed:
            while not self._closed:
                while self._spares:
                    child = self._spares.popleft()
                    if not child.gone():
                        return child
                if not wait:
                    return None
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
            self._closed = True
            for child in self._children:
                child.kill()
            self._changed.notify_all()
        for keeper in self._keepers:
            if keeper is not threading.current_thread():
                keeper.join(timeout=5)

    # --- keepers ------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        keeper = threading.Thread(target=self._keep_one, name=f"model-keeper-{len(self._keepers)}", daemon=True)
        self._keepers.append(keeper)
        keeper.start()

    def _keep_one(self) -> None:
        retry_seconds = _FIRST_RETRY_SECONDS
        while not self._closed:
            problem = self._live_one_life()
            if problem is None:
                retry_seconds = _FIRST_RETRY_SECONDS
                continue
            with self._changed:
                if self._closed:
                    return
                if not self._started:
                    self._refusal = problem
                    self._changed.notify_all()
                    return
                log.error("a model worker could not be started, next try in %g s: %s", retry_seconds, problem)
                self._changed.wait_for(lambda: self._closed, retry_seconds)
            retry_seconds = min(_LONGEST_RETRY_SECONDS, 2 * retry_seconds)

    def _live_one_life(self) -> str | None:
        """One child from its start to its end; what was wrong if it never became ready."""
        try:
            child = Child(self._spec, self._cache_dir, self._allow_pickle)
        except OSError as error:
            return f"the model worker process cannot be started: {error.strerror or error}"
        with self._changed:
            self._children.add(child)
            if self._closed:
                child.kill()
        problem = None
        died = False
        try:
            info = child.await_ready()
        except ModelError as error:
            problem = str(error)
        except TimeoutError:
            child.kill()
            problem = f"the model {self._spec.text} was not ready within {START_LIMIT_SECONDS:g} s"
        except (EOFError, OSError):
            child.kill()
            died = True
        else:
            with self._changed:
                self._info = info
                self._spares.append(child)
                self._changed.notify_all()
        end = child.wait()
        if died:
            problem = f"the model worker ended before the model {self._spec.text} was ready ({end}); is memory short?"
        with self._changed:
            self._children.discard(child)
            idle = child in self._spares
            if idle:
                self._spares.remove(child)
            closed = self._closed
        if problem is None and not closed:
            log.warning("model worker %d ended (%s); %s", child.pid, end, "it was the spare" if idle else "replaced")
            if not idle:
                try:
                    self._on_restart()
                except Exception:
                    log.exception("counting a restart failed")
        return problem
