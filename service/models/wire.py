"""Messages between the service and a model worker: one frame each way per batch, arrays as their raw bytes.

    frame = kind (1 byte) · length of meta (4) · length of payload (8) · meta (JSON) · payload

Nothing is ever unpickled. Both ends run the same code on the same machine, so byte order is the machine's.
"""

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import orjson

from service.models.model import Array

_HEAD: Final = struct.Struct("=cIQ")
_TIMEVAL: Final = struct.Struct("@ll")
_READ_BYTES: Final = 1 << 16  # nearly every frame is shorter

READY: Final = b"r"  # worker: meta is the ModelInfo
REFUSED: Final = b"x"  # worker: the model cannot be served; meta {"error": sentence}
RUN: Final = b"b"  # service: meta {"method", "dtype", "shape"}, payload the rows
RESULT: Final = b"o"  # worker: meta {"seconds", "dtype", "shape"}, payload the result rows
FAILED: Final = b"f"  # worker: the model raised; meta {"error": sentence}

Frame = tuple[bytes, dict[str, Any], memoryview]


class Channel:
    """Frames over a connected stream socket. Raises EOFError when the other end is gone, TimeoutError when silent.

    A frame takes one system call each way, as each gives up the interpreter lock and has to win it back. So the time
    limit is the kernel's: a socket with a limit of Python's is polled before each call.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._ahead = b""  # read already, of the next frame
        self._limit: float | None = None

    def send(self, kind: bytes, meta: dict[str, Any], payload: bytes | memoryview = b"") -> None:
        """Sends in full; each of its system calls within the time limit last given to `receive`."""
        text = orjson.dumps(meta)
        body = memoryview(payload).cast("B") if len(payload) else memoryview(b"")
        left = [memoryview(_HEAD.pack(kind, len(text), body.nbytes) + text), body]
        with _ends_told():
            while left:
                sent = self._sock.sendmsg(left)
                while left and sent >= left[0].nbytes:
                    sent -= left[0].nbytes
                    left.pop(0)
                if left:
                    left[0] = left[0][sent:]

    def receive(self, timeout_seconds: float | None = None) -> Frame:
        if timeout_seconds != self._limit:
            self._limit = timeout_seconds
            whole, fraction = divmod(timeout_seconds or 0.0, 1)
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                self._sock.setsockopt(socket.SOL_SOCKET, option, _TIMEVAL.pack(int(whole), int(fraction * 1e6)))
        give_up_at = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with _ends_told():
            while len(self._ahead) < _HEAD.size:
                self._ahead += self._some(give_up_at)
            kind, meta_length, payload_length = _HEAD.unpack_from(self._ahead)
            payload_at = _HEAD.size + meta_length
            length = payload_at + payload_length
            frame = bytearray(self._ahead[:length])
            self._ahead = self._ahead[length:]
            have = len(frame)
            if have < length:
                frame.extend(bytes(length - have))
                with memoryview(frame) as view:
                    while have < length:
                        have += self._some_into(view[have:], give_up_at)
        view = memoryview(frame)
        return kind, orjson.loads(view[_HEAD.size : payload_at]), view[payload_at:]

    def close(self) -> None:
        """Wakes whoever is reading: their read ends with EOFError."""
        with contextlib.suppress(OSError):  # not connected any more
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _some(self, give_up_at: float | None) -> bytes:
        _check_time(give_up_at)
        received = self._sock.recv(_READ_BYTES)
        if not received:
            raise EOFError("the other end is gone")
        return received

    def _some_into(self, view: memoryview, give_up_at: float | None) -> int:
        _check_time(give_up_at)
        count = self._sock.recv_into(view)
        if not count:
            raise EOFError("the other end is gone")
        return count


def _check_time(give_up_at: float | None) -> None:
    if give_up_at is not None and time.monotonic() >= give_up_at:
        raise TimeoutError("no answer in time")


@contextlib.contextmanager
def _ends_told() -> Iterator[None]:
    try:
        yield
    except (BrokenPipeError, ConnectionResetError) as error:
        raise EOFError("the other end is gone") from error
    except BlockingIOError as error:  # the kernel's time limit
        raise TimeoutError("no answer in time") from error


def array_meta(array: Array) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": array.shape}


def array_bytes(array: Array) -> memoryview | bytes:
    if array.dtype.kind == "U":  # numpy gives no buffer of text
        return array.tobytes()
    return np.ascontiguousarray(array).data if array.size else b""


def array_from(meta: dict[str, Any], payload: memoryview) -> Array:
    return np.frombuffer(payload, dtype=np.dtype(meta["dtype"])).reshape(meta["shape"])
