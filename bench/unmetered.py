"""`python -m bench.unmetered`: the service as it is, but nothing is recorded of requests and batches.

What `make bench` sets against `python -m service` to find what all metrics cost. No setting of the service turns them
off, so the parts that record are replaced here, before the service is put together.
"""

import sys
from types import ModuleType
from typing import Any

import service.assembly
import service.handler
from service import __main__ as program
from service.batching.records import BatchRecord
from service.ledger import Ledger
from service.records import RequestRecord
from service.slowest import Slowest


class DeafLedger(Ledger):
    """Counts nothing."""

    def on_request(self, record: RequestRecord) -> None:
        pass

    def on_batch(self, record: BatchRecord) -> None:
        pass


class DeafSlowest(Slowest):
    """Keeps nothing."""

    def on_request(self, record: RequestRecord) -> None:
        pass


def no_record(*facts: Any, **more: Any) -> None:
    """In the place of a RequestRecord, whose only readers are the two above."""


def replace(module: ModuleType, name: str, other: object) -> None:
    """A name that is no longer there would leave the metrics on without a word, so that is an error."""
    if not hasattr(module, name):
        raise AttributeError(f"{module.__name__} has no {name} that could be replaced")
    setattr(module, name, other)


def main() -> int:
    replace(service.assembly, "Ledger", DeafLedger)
    replace(service.assembly, "Slowest", DeafSlowest)
    replace(service.handler, "RequestRecord", no_record)
    return program.main()


if __name__ == "__main__":
    sys.exit(main())
