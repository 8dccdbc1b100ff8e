"""promtool tests for the generated rules: they name the shipped rule files, never a copy."""

from typing import Any

from slo.config import SloFile
from slo.durations import duration_text
from slo.rule_tests.breach import breach_tests
from slo.rule_tests.operations import operations_tests
from slo.rule_tests.stack import stack_tests
from slo.rules import STACK_FILE, service_file


def rule_test_files(slo: SloFile) -> dict[str, dict[str, Any]]:
    """File name -> promtool test file."""
    files: dict[str, dict[str, Any]] = {}
    for service in slo.services:
        rules = {"rule_files": [f"../rules/{service_file(service)}"]}
        for burn in service.profile.burn_rates:
            name = f"{service.job}-breach-{duration_text(burn.long_seconds)}.yml"
            files[name] = rules | breach_tests(service, slo, burn)
        files[service_file(service)] = rules | operations_tests(service, slo)
    files[STACK_FILE] = stack_tests(slo)
    return files
