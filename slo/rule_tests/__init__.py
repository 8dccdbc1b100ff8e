"""promtool tests for the generated rules."""

from typing import Any

from slo.config import SloFile


def rule_test_files(slo: SloFile) -> dict[str, dict[str, Any]]:
    """File name -> promtool test file."""
    return {}
