"""What a firing alert must say, word for word: a template that fails to render is an alert that nobody understands."""

import re
from typing import Any, Final

from slo.alerts import Alert
from slo.durations import duration_text

_QUERY: Final = re.compile(r"\{\{ with query .*?\{\{ end \}\}")
_VALUE: Final = re.compile(r"\{\{ \$value[^}]*\}\}")
_LABEL: Final = re.compile(r"\{\{ \$labels\.(\w+) \}\}")


def says(alert: Alert, at_seconds: int, value: str, labels: dict[str, str], queried: str = "") -> dict[str, Any]:
    """Exactly one alert of that name fires, with these labels; `value` and `queried` stand where its templates do."""
    rule = alert.rule()

    def filled(template: str) -> str:
        text = _VALUE.sub(value, _QUERY.sub(queried, template))
        return _LABEL.sub(lambda match: labels[match[1]], text)

    return {
        "eval_time": duration_text(at_seconds),
        "alertname": alert.name,
        "exp_alerts": [
            {
                "exp_labels": {**labels, **rule["labels"]},
                "exp_annotations": {name: filled(text) for name, text in rule["annotations"].items()},
            }
        ],
    }
