"""The made-up searches of the unit tests, so that both look at the same pages."""

import importlib.util
import sys
from pathlib import Path

_SOURCE = Path(__file__).resolve().parents[3] / "unit/loadtest/analysis/report/tuned/conftest.py"
_NAME = "tests_unit_loadtest_report_tuned_conftest"
_spec = importlib.util.spec_from_file_location(_NAME, _SOURCE)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
sys.modules[_NAME] = _module  # dataclasses look their module up
_spec.loader.exec_module(_module)
found_of = _module.found_of
about = _module.about
