"""What `SERVICE_MODEL` may say, read into a frozen spec without touching a file."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Literal
from urllib.parse import parse_qsl

Kind = Literal["digits", "skops", "onnx", "joblib", "synthetic"]

EXPECTED: Final = (
    "digits, digits?trees=N, a path to a .skops, .onnx or .joblib file, or "
    "synthetic?fixed_seconds=S&per_row_seconds=S&features=N"
)
DEFAULT_TREES: Final = 200  # docs/decisions/0005: batching matters, and a slow machine still has room inside 50 ms
DEFAULT_FIXED_SECONDS: Final = 0.004
DEFAULT_PER_ROW_SECONDS: Final = 0.0001
DEFAULT_FEATURES: Final = 8
_SUFFIXES: Final[dict[str, Kind]] = {".skops": "skops", ".onnx": "onnx", ".joblib": "joblib"}


class ModelError(Exception):
    """The model cannot be served. The message is one sentence for a person: what, where, what was expected."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    text: str
    kind: Kind
    path: str | None = None  # of the model file
    trees: int = DEFAULT_TREES  # digits
    fixed_seconds: float = DEFAULT_FIXED_SECONDS  # synthetic: one call of n rows takes fixed + per_row · n
    per_row_seconds: float = DEFAULT_PER_ROW_SECONDS
    features: int = DEFAULT_FEATURES

    @property
    def name(self) -> str:
        """The model's name in v2 routes and in the `model` label unless another is set."""
        return PurePath(self.path).stem if self.path else self.kind


def parse_model(text: str) -> ModelSpec:
    """Raises ModelError with one sentence."""
    base, _, query = text.partition("?")
    if base == "digits":
        options = _options(text, query, ("trees",))
        return ModelSpec(text, "digits", trees=_whole(text, options, "trees", DEFAULT_TREES, at_most=100_000))
    if base == "synthetic":
        options = _options(text, query, ("fixed_seconds", "per_row_seconds", "features"))
        return ModelSpec(
            text,
            "synthetic",
            fixed_seconds=_seconds(text, options, "fixed_seconds", DEFAULT_FIXED_SECONDS),
            per_row_seconds=_seconds(text, options, "per_row_seconds", DEFAULT_PER_ROW_SECONDS),
            features=_whole(text, options, "features", DEFAULT_FEATURES, at_most=1_000_000),
        )
    suffix = PurePath(text).suffix.lower()
    if suffix in (".pkl", ".pickle"):
        raise ModelError(f"the model {text!r} is a pickle, which runs any code it holds; expected {EXPECTED}")
    kind = _SUFFIXES.get(suffix)
    if kind is None:
        raise ModelError(f"the model {text!r} is none that is known; expected {EXPECTED}")
    return ModelSpec(text, kind, path=text)


def _options(text: str, query: str, known: tuple[str, ...]) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise ModelError(f"the model {text!r} has options that cannot be read; expected {EXPECTED}") from None
    options = dict(pairs)
    for name in options:
        if name not in known:
            raise ModelError(f"the model {text!r} has no option {name!r}; expected {' or '.join(known)}")
    if len(options) != len(pairs):
        raise ModelError(f"the model {text!r} gives an option twice; expected each at most once")
    return options


def _whole(text: str, options: dict[str, str], name: str, default: int, at_most: int) -> int:
    given = options.get(name, str(default))
    if not (given.isascii() and given.isdigit() and 1 <= int(given) <= at_most):
        raise ModelError(f"the model {text!r} has {name}={given}; expected a whole number from 1 to {at_most}")
    return int(given)


def _seconds(text: str, options: dict[str, str], name: str, default: float) -> float:
    given = options.get(name, str(default))
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 60:  # NaN fails too
        raise ModelError(f"the model {text!r} has {name}={given}; expected seconds from 0 to 60")
    return value
