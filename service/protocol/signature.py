"""What a format needs to know of the served model to check a request against it."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Output:
    """One output tensor of the v2 protocol; shape is [-1] or [-1, width]."""

    method: str
    datatype: str  # FP64, INT64, BYTES …
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """The served model as its callers see it."""

    name: str
    features: int | None  # None: any number, the same in every row
    dtype: np.dtype[np.float32] | np.dtype[np.float64]
    methods: tuple[str, ...]  # the first is the default
    platform: str
    version: str
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may ask for."""

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed request: `rows` is a 2-D array of the signature's dtype, contiguous and finite."""

    rows: "np.ndarray[tuple[int, int], np.dtype[np.floating]]"
    methods: tuple[str, ...]  # at least one
