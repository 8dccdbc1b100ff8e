"""Imports point inward: pure cores import nothing outward, and the two programs do not know each other."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("service", "loadtest", "slo", "stack", "bench")
# package -> packages of ours that it may import, beside itself
ALLOWED = {
    "slo": set(),
    "service": {"slo"},
    "loadtest": {"slo"},
    "stack": {"slo", "service", "loadtest"},
    "bench": {"slo", "service", "loadtest", "stack"},
}
# pure packages -> third-party modules that they may import
PURE = {"service/batching": set(), "loadtest/analysis": {"numpy", "plotly", "jinja2"}}


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_lies_further_in(root: Path, package: str) -> None:
    files = sorted((root / package).rglob("*.py"))
    assert files
    for path in files:
        ours = {name.split(".")[0] for name in imported_modules(path)} & set(PACKAGES)
        assert ours <= ALLOWED[package] | {package}, path


@pytest.mark.parametrize("folder", PURE)
def test_pure_cores_import_the_standard_library_only(root: Path, folder: str) -> None:
    package = folder.split("/")[0]
    for path in sorted((root / folder).rglob("*.py")):
        for name in imported_modules(path):
            top = name.split(".")[0]
            inside = name.startswith(folder.replace("/", ".")) or top == "slo"
            assert inside or top in sys.stdlib_module_names or top in PURE[folder], f"{path} imports {name} ({package})"


def test_prometheus_and_grafana_hold_no_python(root: Path) -> None:
    assert [*(root / "prometheus").rglob("*.py"), *(root / "grafana").rglob("*.py")] == []


def test_no_module_shadows_a_library_inside_loadtest(root: Path) -> None:
    """Locust puts loadtest/ first on sys.path, so a file there named like a library would replace it."""
    names = {path.stem for path in (root / "loadtest").glob("*.py")} - {"__init__", "__main__"}
    assert names.isdisjoint({*sys.stdlib_module_names, "requests", "flask", "locust", "gevent", "numpy", "httptools"})
