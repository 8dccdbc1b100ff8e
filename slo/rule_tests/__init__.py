"""promtool tests for the generated rules: they name the shipped rule files, never a copy."""

from typing import Any

from slo.config import SloFile
from slo.durations import duration_text
from slo.rule_tests.breach import breach_tests
from slo.rules import service_file


def rule_test_files(slo: SloFile) -> dict[str, dict[str, Any]]:
    """File name -> promtool test file."""
    files: dict[str, dict[str, Any]] = {}
    for service in slo.services:
        rules = {"rule_files": [f"../rules/{service_file(service)}"]}
        for burn in service.profile.burn_rates:
            name = f"{service.job}-breach-{duration_text(burn.long_seconds)}.yml"
            files[name] = rules | breach_tests(service, slo, burn)
    return files
