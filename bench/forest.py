"""The model files that every server serves, fitted once for each state of the fitting environment's lock."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.environments import LOCKS, prepare
from bench.programs import ROOT, run

HOME: Final = ROOT / ".tailboard" / "bench"
FEATURES: Final = 20  # as bench/peers/fit.py has it
_FIT_SECONDS: Final = 180.0
FILES: Final = {"sklearn": "forest.skops", "onnx": "forest.onnx"}


def obtain(log_dir: Path, say: Callable[[str], None]) -> Path:
    """The directory with forest.skops, .onnx and .joblib. Raises PeerEnvironmentError or ProgramFailed."""
    made_from = (LOCKS / "models.lock").read_bytes() + (LOCKS / "fit.py").read_bytes()
    directory = HOME / f"forest-{hashlib.sha256(made_from).hexdigest()[:16]}"
    if directory.is_dir():
        return directory
    bin_dir = prepare("models", log_dir, say)
    say("fitting the forest ...")
    new = directory.with_name(f".{directory.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    run([str(bin_dir / "python"), str(LOCKS / "fit.py"), str(new)], os.environ, log_dir / "fit.log", _FIT_SECONDS)
    new.rename(directory)  # in one step: what is there is complete
    return directory
