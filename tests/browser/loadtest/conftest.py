"""The made-up results of the unit tests, so that both look at the same reports."""

import importlib.util
from pathlib import Path

_SOURCE = Path(__file__).resolve().parents[2] / "unit" / "loadtest" / "analysis" / "report" / "conftest.py"
_spec = importlib.util.spec_from_file_location("tests_unit_loadtest_report_conftest", _SOURCE)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
result_of = _module.result_of
