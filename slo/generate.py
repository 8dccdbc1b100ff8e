"""What follows from slo.yaml, as files: rules, rule tests, dashboards, what a cluster takes. Written, or compared."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from slo import kubernetes
from slo.config import SloFile
from slo.rule_tests import rule_test_files
from slo.rules import rule_files

RULES: Final = Path("prometheus/rules")
RULE_TESTS: Final = Path("prometheus/tests")
DASHBOARDS: Final = Path("grafana/dashboards")
KUBERNETES: Final = Path("deploy/kubernetes")

_HEADER: Final = "# Generated from slo.yaml by `python -m slo generate`; changes here are lost.\n"


def artifacts(slo: SloFile) -> dict[Path, str]:
    """Path from the repository's root -> whole text, for every generated file."""
    # The dashboards need the Grafana SDK; whoever only reads slo.yaml does not load it.
    from slo.dashboards import dashboards

    files = {RULES / name: yaml_text(content) for name, content in rule_files(slo).items()}
    files |= {RULE_TESTS / name: yaml_text(content) for name, content in rule_test_files(slo).items()}
    files |= {DASHBOARDS / name: json_text(content) for name, content in dashboards(slo).items()}
    return files | _for_a_cluster(slo)


def _for_a_cluster(slo: SloFile) -> dict[Path, str]:
    files = {KUBERNETES / "base" / "service-monitor.yaml": yaml_text(kubernetes.service_monitor(slo))}
    for overlay in kubernetes.OVERLAYS:
        watched = kubernetes.for_overlay(slo, overlay)
        folder = KUBERNETES / "overlays" / overlay
        files[folder / "slo.yaml"] = yaml_text(kubernetes.slo_document(watched))
        files[folder / "prometheus-rule.yaml"] = yaml_text(kubernetes.prometheus_rule(watched))
    return files


def write(files: Mapping[Path, str], root: Path) -> None:
    """Write every file below `root`, and remove generated ones that slo.yaml no longer asks for."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    for path in stray(files, root):
        (root / path).unlink()


def differences(files: Mapping[Path, str], root: Path) -> list[str]:
    """One line per file that is missing, differs, or should not be there."""
    lines = []
    for path, text in files.items():
        if not (root / path).is_file():
            lines.append(f"{path} is missing")
        elif (root / path).read_text() != text:
            lines.append(f"{path} is not what slo.yaml gives")
    return lines + [f"{path} is generated, but no longer follows from slo.yaml" for path in stray(files, root)]


def stray(files: Mapping[Path, str], root: Path) -> list[Path]:
    """Generated rule files and tests, by their header, that `files` does not have. Hand-written ones are left alone."""
    present = [
        path.relative_to(root) for folder in (RULES, RULE_TESTS) for path in sorted((root / folder).glob("*.yml"))
    ]
    return [path for path in present if path not in files and (root / path).read_text().startswith(_HEADER)]


def yaml_text(content: Mapping[str, Any]) -> str:
    """As a person would write it: keys in their order, expressions of several lines as blocks."""
    return _HEADER + yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=10**6, allow_unicode=True)


def json_text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


class _Dumper(yaml.SafeDumper):
    """SafeDumper with block scalars for text of several lines, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
