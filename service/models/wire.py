"""Messages between the service and a model worker: one frame each way per batch, arrays as their raw bytes.

    frame = kind (1 byte) · length of meta (4) · length of payload (8) · meta (JSON) · payload

Nothing is ever unpickled. Both ends run the same code on the same machine, so byte order is the machine's.
"""

import contextlib
import json
import socket
import struct
import time
from typing import Any, Final

import numpy as np

from service.models.model import Array

_HEAD: Final = struct.Struct("=cIQ")

READY: Final = b"r"  # worker: meta is the ModelInfo
REFUSED: Final = b"x"  # worker: the model cannot be served; meta {"error": sentence}
RUN: Final = b"b"  # service: meta {"method", "dtype", "shape"}, payload the rows
RESULT: Final = b"o"  # worker: meta {"seconds", "dtype", "shape"}, payload the result rows
FAILED: Final = b"f"  # worker: the model raised; meta {"error": sentence}

Frame = tuple[bytes, dict[str, Any], bytearray]


class Channel:
    """Frames over a connected stream socket. Raises EOFError when the other end is gone, TimeoutError when silent."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def send(self, kind: bytes, meta: dict[str, Any], payload: bytes | memoryview = b"") -> None:
        """Sends in full within the time limit last set by `receive`, if any."""
        text = json.dumps(meta, separators=(",", ":")).encode()
        body = memoryview(payload).cast("B") if len(payload) else memoryview(b"")
        left = [memoryview(_HEAD.pack(kind, len(text), body.nbytes) + text), body]
        try:
            while left:
                sent = self._sock.sendmsg(left)
                while left and sent >= left[0].nbytes:
                    sent -= left[0].nbytes
                    left.pop(0)
                if left:
                    left[0] = left[0][sent:]
        except (BrokenPipeError, ConnectionResetError) as error:
            raise EOFError("the other end is gone") from error

    def receive(self, timeout_seconds: float | None = None) -> Frame:
        give_up_at = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        kind, meta_length, payload_length = _HEAD.unpack(self._exactly(_HEAD.size, give_up_at))
        meta = json.loads(self._exactly(meta_length, give_up_at))
        return kind, meta, self._exactly(payload_length, give_up_at)

    def close(self) -> None:
        """Wakes whoever is reading: their read ends with EOFError."""
        with contextlib.suppress(OSError):  # not connected any more
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _exactly(self, length: int, give_up_at: float | None) -> bytearray:
        buffer = bytearray(length)
        view = memoryview(buffer)
        while len(view):
            if give_up_at is not None:
                left = give_up_at - time.monotonic()
                if left <= 0:
                    raise TimeoutError("no answer in time")
                self._sock.settimeout(left)
            try:
                count = self._sock.recv_into(view)
            except ConnectionResetError as error:
                raise EOFError("the other end is gone") from error
            if count == 0:
                raise EOFError("the other end is gone")
            view = view[count:]
        return buffer


def array_meta(array: Array) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": array.shape}


def array_bytes(array: Array) -> memoryview | bytes:
    if array.dtype.kind == "U":  # numpy gives no buffer of text
        return array.tobytes()
    return np.ascontiguousarray(array).data if array.size else b""


def array_from(meta: dict[str, Any], payload: bytearray) -> Array:
    return np.frombuffer(payload, dtype=np.dtype(meta["dtype"])).reshape(meta["shape"])
