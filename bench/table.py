"""Tables that read well both on a terminal and as Markdown. Pure."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """The first `left` columns go to the left, the others, numbers, to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    rule = [("-" * width if column < left else "-" * (width - 1) + ":") for column, width in enumerate(widths)]
    return "\n".join(_line(row, widths, left) for row in (head, rule, *rows))


def _line(row: Sequence[str], widths: Sequence[int], left: int) -> str:
    cells = [
        f"{cell:<{width}}" if column < left else f"{cell:>{width}}"
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"| {' | '.join(cells)} |"


def milliseconds(seconds: float | None) -> str:
    """Such as 0.27 ms; a dash for none."""
    return "-" if seconds is None else f"{1000 * seconds:.2f} ms"
