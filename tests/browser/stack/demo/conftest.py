"""The made-up record of the unit tests, so that both look at the same report."""

import importlib.util
from pathlib import Path

_SOURCE = Path(__file__).resolve().parents[3] / "unit" / "stack" / "demo" / "conftest.py"
_spec = importlib.util.spec_from_file_location("tests_unit_stack_demo_conftest", _SOURCE)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
record = _module.record
