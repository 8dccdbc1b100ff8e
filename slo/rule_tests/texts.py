"""What a firing alert must say, word for word: a template that fails to render is an alert that nobody understands."""

import re
from collections.abc import Sequence
from typing import Any, Final

from slo.alerts import Alert
from slo.durations import duration_text

_QUERY: Final = re.compile(r"\{\{ with query .*\{\{ end \}\}")
_VALUE: Final = re.compile(r"\{\{ \$value[^}]*\}\}")
_LABEL: Final = re.compile(r"\{\{ \$labels\.(\w+) \}\}")


def says(alert: Alert, at_seconds: int, value: str, labels: dict[str, str], queried: str = "") -> dict[str, Any]:
    """Exactly one alert of that name fires, with these labels; `value` and `queried` stand where its templates do."""
    return all_say([alert], at_seconds, value, labels, queried)


def all_say(
    alerts: Sequence[Alert], at_seconds: int, value: str, labels: dict[str, str], queried: str = ""
) -> dict[str, Any]:
    """Exactly these alerts of one name fire."""

    def filled(template: str) -> str:
        text = _VALUE.sub(value, _QUERY.sub(queried, template))
        return _LABEL.sub(lambda match: labels[match[1]], text)

    rules = [alert.rule() for alert in alerts]
    return {
        "eval_time": duration_text(at_seconds),
        "alertname": alerts[0].name,
        "exp_alerts": [
            {
                "exp_labels": {**labels, **rule["labels"]},
                "exp_annotations": {name: filled(text) for name, text in rule["annotations"].items()},
            }
            for rule in rules
        ],
    }


def humanized(seconds: float) -> str:
    """As Prometheus's humanizeDuration writes it, for less than an hour: "62.6ms", "1.225s", "3m 8s"."""
    if seconds >= 60:
        return f"{int(seconds) // 60}m {int(seconds) % 60}s"
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g}{unit}"
    return f"{seconds / 1e-9:.4g}ns"
