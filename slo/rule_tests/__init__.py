"""promtool tests for the generated rules: they name the shipped rule files, never a copy."""

from typing import Any

from slo.config import SloFile
from slo.durations import duration_text
from slo.rule_tests.breach import breach_tests
from slo.rule_tests.operations import operations_tests
from slo.rule_tests.stack import stack_tests
from slo.rules import STACK_FILE, group_order, rule_files, service_file


def rule_test_files(slo: SloFile) -> dict[str, dict[str, Any]]:
    """File name -> promtool test file."""
    files: dict[str, dict[str, Any]] = {}
    for service in slo.services:
        head = _head(slo, service_file(service))
        for burn in service.profile.burn_rates:
            name = f"{service.job}-breach-{duration_text(burn.long_seconds)}.yml"
            files[name] = head | breach_tests(service, slo, burn)
        files[service_file(service)] = head | operations_tests(service, slo)
    # The gap between client and server needs what is recorded about both.
    files[STACK_FILE] = _head(slo, *rule_files(slo)) | stack_tests(slo)
    return files


def _head(slo: SloFile, *names: str) -> dict[str, Any]:
    rules = rule_files(slo)
    # promtool evaluates groups in no order of its own, and an alert must not run before what it reads.
    order = group_order({name: rules[name] for name in names})
    return {"rule_files": [f"../rules/{name}" for name in names], "group_eval_order": order}
