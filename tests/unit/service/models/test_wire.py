"""Frames over a socket that gives and takes as little as it likes."""

import socket
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from service.models import wire


class StingySocket:
    """Sends and receives `step` bytes a call; what was sent can be received."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.stream = bytearray()

    def sendmsg(self, buffers: list[memoryview]) -> int:
        sent = b"".join(buffers)[: self.step]
        self.stream += sent
        return len(sent)

    def recv_into(self, view: memoryview) -> int:
        count = min(self.step, len(view), len(self.stream))
        view[:count] = self.stream[:count]
        del self.stream[:count]
        return count

    def recv(self, length: int) -> bytes:
        piece = bytes(self.stream[: min(self.step, length)])
        del self.stream[: len(piece)]
        return piece

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        pass


def channel(step: int) -> wire.Channel:
    stingy: Any = StingySocket(step)
    return wire.Channel(stingy)


@given(
    st.integers(1, 4096),
    arrays.arrays(
        dtype=st.sampled_from(["float64", "float32", "int64", "bool", "<U3"]),
        shape=arrays.array_shapes(min_dims=1, max_dims=3, min_side=0),
    ),
)
def test_an_array_arrives_as_it_was_sent(step: int, array: Any) -> None:
    line = channel(step)
    line.send(wire.RUN, {"method": "predict", **wire.array_meta(array)}, wire.array_bytes(array))
    kind, meta, payload = line.receive(timeout_seconds=1.0)
    back = wire.array_from(meta, payload)
    assert kind == wire.RUN
    assert meta["method"] == "predict"
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_one_byte_at_a_time_several_frames_in_a_row() -> None:
    line = channel(1)
    for number in range(3):
        line.send(wire.RESULT, {"number": number}, bytes(range(number)))
    assert [line.receive(None)[1]["number"] for _ in range(3)] == [0, 1, 2]


def test_rows_that_do_not_lie_together_in_memory() -> None:
    array = np.arange(12.0).reshape(3, 4).T
    line = channel(5)
    line.send(wire.RUN, wire.array_meta(array), wire.array_bytes(array))
    _, meta, payload = line.receive(None)
    np.testing.assert_array_equal(wire.array_from(meta, payload), array)


@pytest.mark.parametrize("sent", [b"", b"b\x01"])
def test_the_end_of_the_stream_is_the_end_even_within_a_frame(sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(sent)
    theirs.close()
    with pytest.raises(EOFError):
        wire.Channel(ours).receive(1.0)
    ours.close()


def test_sending_to_nobody_is_the_end() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(EOFError):
        wire.Channel(ours).send(wire.RUN, {}, b"rows")
    ours.close()


def test_silence_is_a_timeout() -> None:
    ours, theirs = socket.socketpair()
    with pytest.raises(TimeoutError):
        wire.Channel(ours).receive(0.01)
    ours.close()
    theirs.close()
