"""A row that a person can post at once, for the page at `/` and the API's document."""

from typing import Final

# The first image of scikit-learn's handwritten digits, a nought: 8 × 8 pixels from 0 to 16.
# Kept here because the service itself does not load scikit-learn; its child process does.
DIGIT: Final[tuple[float, ...]] = (
    0, 0, 5, 13, 9, 1, 0, 0,
    0, 0, 13, 15, 10, 15, 5, 0,
    0, 3, 15, 2, 0, 11, 8, 0,
    0, 4, 12, 0, 0, 8, 8, 0,
    0, 5, 8, 0, 0, 9, 8, 0,
    0, 4, 11, 0, 1, 12, 7, 0,
    0, 2, 14, 5, 10, 12, 0, 0,
    0, 0, 6, 13, 10, 0, 0, 0,
)  # fmt: skip
UNKNOWN_WIDTH: Final = 4  # of the example for a model that takes rows of any width


def example_row(kind: str, features: int | None) -> tuple[float, ...]:
    """A row of the right width; a real one for the built-in model."""
    if kind == "digits":
        return DIGIT
    return tuple(range(1, (features or UNKNOWN_WIDTH) + 1))
