"""A session of the real `tritonclient` with a running service: `python -m tests.live.service.triton_session URL`.

Health, metadata, inference of 1, 64 and 1,000 rows as bytes and as JSON, many requests in flight, and the errors.
Each answer is compared with the same rows sent in another form, and with the bare model where `--model` names it.
Prints a line per step; exits 0 if all is as it should be, 1 with the first thing that is not.
"""

import argparse
import itertools
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from tritonclient import http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype, triton_to_np_dtype

SIZES = (1, 64, 1000)
IN_FLIGHT = 64

Array = npt.NDArray[Any]


class Differs(Exception):
    """Something is not as the protocol or the model has it."""


class Session:
    """The client, with its defaults, and what the service says of its model."""

    def __init__(self, client: http.InferenceServerClient, name: str, bare: Any = None) -> None:
        self.client = client
        self.name = name
        self.bare = bare  # a loaded model, or None
        self.metadata: dict[str, Any] = client.get_model_metadata(name)
        (self.input,) = self.metadata["inputs"]
        self.outputs = [output["name"] for output in self.metadata["outputs"]]

    def rows(self, count: int, seed: int = 1) -> Array:
        features = self.input["shape"][1] if self.input["shape"][1] > 0 else 4
        values = np.random.default_rng(seed).integers(0, 17, (count, features))
        return values.astype(triton_to_np_dtype(self.input["datatype"]))

    def tensor(self, rows: Array, binary: bool = True, **changes: Any) -> http.InferInput:
        name = changes.get("name", self.input["name"])
        tensor = http.InferInput(name, list(rows.shape), np_to_triton_dtype(rows.dtype))
        if binary:
            tensor.set_data_from_numpy(rows)  # the default: bytes
        else:
            tensor.set_data_from_numpy(rows, binary_data=False)
        return tensor

    def ask(self, rows: Array, binary: bool = True, **options: Any) -> http.InferResult:
        return self.client.infer(self.name, [self.tensor(rows, binary)], **options)

    def check(self, result: http.InferResult, rows: Array, names: list[str], binary: bool, what: str) -> None:
        """Outputs `names` and no other, in the form asked for, and what the bare model gives."""
        answer = result.get_response()
        given = [output["name"] for output in answer["outputs"]]
        expect(given == names, f"{what}: outputs are {given}, not {names}")
        expect(answer["model_name"] == self.name, f"{what}: model_name is {answer['model_name']!r}")
        described = {output["name"]: output for output in self.metadata["outputs"]}
        for name in names:
            output, array = result.get_output(name), result.as_numpy(name)
            expect(("data" not in output) == binary, f"{what}: {name} came in the other form")
            expect(output["datatype"] == described[name]["datatype"], f"{what}: {name} is {output['datatype']}")
            expect(list(array.shape) == [len(rows), *described[name]["shape"][1:]], f"{what}: {name} is {array.shape}")
            if self.bare is not None:
                expect(same(array, self.bare.run(name, rows)), f"{what}: {name} is not what the bare model gives")


def same(array: Array, expected: Array) -> bool:
    """Equal to the last bit; text, which the protocol sends as UTF-8, by its characters."""
    if array.dtype == np.object_:
        texts = [item.decode() if isinstance(item, bytes) else item for item in array.reshape(-1)]
        return texts == [str(item) for item in expected.reshape(-1)]
    if array.dtype != expected.dtype:
        return False
    if array.dtype.kind == "f":
        # A linear model's sums may end in another last digit when the batch is larger; another's row is far from that.
        return array.shape == expected.shape and np.allclose(array, expected, rtol=1e-9, atol=1e-12)
    return np.array_equal(array, expected)


def expect(true: bool, otherwise: str) -> None:
    if not true:
        raise Differs(otherwise)


def health(session: Session) -> None:
    for what, answer in (
        ("server live", session.client.is_server_live()),
        ("server ready", session.client.is_server_ready()),
        (f"model {session.name} ready", session.client.is_model_ready(session.name)),
    ):
        expect(answer is True, f"{what}: {answer}")
        print(f"{what}: {answer}")
    expect(not session.client.is_model_ready("nobody"), "a model that is not served is ready")
    print("model nobody ready: False")


def metadata(session: Session) -> None:
    server = session.client.get_server_metadata()
    expect("binary_tensor_data" in server["extensions"], f"extensions are {server['extensions']}")
    print(f"server metadata: {server}")
    print(f"model metadata: {session.metadata}")


def inference(session: Session) -> None:
    for count in SIZES:
        rows = session.rows(count)
        session.check(session.ask(rows), rows, session.outputs, True, f"{count} rows with the defaults")
        forms = 1
        for binary_in, binary_out in itertools.product((True, False), repeat=2):
            for names in ([session.outputs[0]], session.outputs, session.outputs[::-1]):
                asked = [
                    http.InferRequestedOutput(name)
                    if binary_out
                    else http.InferRequestedOutput(name, binary_data=False)
                    for name in names
                ]
                result = session.ask(rows, binary_in, outputs=asked, request_id=f"{count}-{forms}")
                session.check(result, rows, names, binary_out, f"{count} rows, {binary_in=}, {binary_out=}")
                expect(result.get_response()["id"] == f"{count}-{forms}", "the id is another one")
                forms += 1
        print(f"{count} rows: {forms} forms of request and reply agree{' with the bare model' * bool(session.bare)}")
    mixed = [http.InferRequestedOutput(name, binary_data=index > 0) for index, name in enumerate(session.outputs)]
    answer = session.ask(session.rows(3), outputs=mixed, request_id="mixed")
    for index, name in enumerate(session.outputs):
        expect(("data" not in answer.get_output(name)) == (index > 0), f"{name} came in the other form")
    print("one output as JSON and the next as bytes, in one reply: as asked")


def in_flight(session: Session) -> None:
    rows = [session.rows(1 + number % 7, seed=number) for number in range(IN_FLIGHT)]
    waiting = [
        session.client.async_infer(session.name, [session.tensor(own)], request_id=str(number))
        for number, own in enumerate(rows)
    ]
    for number, (request, own) in enumerate(zip(waiting, rows, strict=True)):
        result = request.get_result()
        expect(result.get_response()["id"] == str(number), f"request {number} got another's answer")
        session.check(result, own, session.outputs, True, f"request {number} in flight")
    print(f"{IN_FLIGHT} requests in flight at once: each got its own rows")


def errors(session: Session, most_rows: int) -> None:
    rows = session.rows(2)
    wide = np.concatenate([rows, rows], axis=1)
    for what, ask in {
        "wrong shape": lambda: session.ask(wide),
        "one axis": lambda: session.ask(rows[0]),
        "wrong datatype": lambda: session.ask(rows.astype(np.bool_)),
        "text": lambda: session.ask(rows.astype(np.object_)),
        "wrong input": lambda: session.client.infer(session.name, [session.tensor(rows, name="nothing")]),
        "two inputs": lambda: session.client.infer(session.name, [session.tensor(rows)] * 2),
        "unknown output": lambda: session.ask(rows, outputs=[http.InferRequestedOutput("nothing")]),
        "classification": lambda: session.ask(
            rows, outputs=[http.InferRequestedOutput(session.outputs[0], class_count=3)]
        ),
        "unknown parameter": lambda: session.ask(rows, parameters={"temperature": 1}),
        "a NaN": lambda: session.ask(np.full_like(rows, np.nan)),
        "too many rows": lambda: session.ask(session.rows(most_rows + 1)),
        "gzip": lambda: session.ask(rows, request_compression_algorithm="gzip"),
        "deflate": lambda: session.ask(rows, request_compression_algorithm="deflate"),
        "unknown model": lambda: session.client.infer("nobody", [session.tensor(rows)]),
        "metadata of an unknown model": lambda: session.client.get_model_metadata("nobody"),
        "model config (an extension not offered)": lambda: session.client.get_model_config(session.name),
    }.items():
        try:
            ask()
        except InferenceServerException as error:
            expect("an exception occurred in the client" not in error.message(), f"{what}: {error.message()}")
            print(f"{what}: {error.status()} {error.message()}")
        else:
            raise Differs(f"{what}: no error")
    compressed = session.ask(rows, response_compression_algorithm="gzip")  # may be compressed, need not
    session.check(compressed, rows, session.outputs, True, "an answer that may be compressed")
    session.check(session.ask(rows), rows, session.outputs, True, "the same connection after the errors")
    print("after all that: served as before")


def run(url: str, name: str, bare: Any, most_rows: int) -> None:
    """The whole session; raises Differs."""
    with http.InferenceServerClient(url.removeprefix("http://").rstrip("/"), concurrency=IN_FLIGHT) as client:
        session = Session(client, name, bare)
        health(session)
        metadata(session)
        inference(session)
        in_flight(session)
        errors(session, most_rows)


def main() -> NoReturn:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of the service's inference port, such as http://127.0.0.1:8000")
    parser.add_argument("--name", default="digits", help="of the served model (digits)")
    parser.add_argument("--model", help="SERVICE_MODEL of that service: its answers are compared with the bare model")
    parser.add_argument("--most-rows", type=int, default=1024, help="SERVICE_MAX_REQUEST_ROWS of that service")
    given = parser.parse_args()
    bare = None
    if given.model:
        from service.models import load, parse_model

        bare = load(parse_model(given.model), Path(tempfile.gettempdir()) / "triton_session", allow_pickle=False)
    try:
        run(given.url, given.name, bare, given.most_rows)
    except Differs as difference:
        print(f"differs: {difference}", file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


if __name__ == "__main__":
    main()
