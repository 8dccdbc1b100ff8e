"""A file that is there whole or not at all, so that nobody reads half a result."""

import os
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Replaces what was there. Raises OSError."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
