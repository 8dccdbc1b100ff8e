"""What the tuner confirmed stands beside the budget."""

import json
from pathlib import Path
from typing import Any

import pytest

from slo.config import SloError
from slo.config import load as load_slo
from slo.explain import explain
from slo.tuned import load

ROOT = Path(__file__).resolve().parents[3]


def record(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "chosen",
        "rate": 1480.4,
        "confirmations": [4, 5, 6],
        "knobs": {"max_batch_rows": 32, "max_wait_seconds": 0.002, "policy": "adaptive"},
        "slo": {"objective": 0.99, "threshold_seconds": 0.05},
        "model": "digits",
        "started_at": "2026-03-04T05:06:07+01:00",
        **changes,
    }


def written(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "frontier.json"
    path.write_text(json.dumps(record(**changes)))
    return path


def test_the_confirmed_rate_and_what_of_it_may_be_bad(tmp_path: Path) -> None:
    told = explain(load_slo(ROOT / "slo.yaml"), tuned=load(written(tmp_path)))
    assert (
        "The tuner confirmed 1,480 requests/s for digits (batch 32, wait 2 ms, adaptive; 2026-03-04): above it expect "
        "the objective to break. At that rate\n  14.8 requests a second may be bad.\n" in told
    )
    assert "The tuner" not in explain(load_slo(ROOT / "slo.yaml"))
    other = load(written(tmp_path, job="another"))
    assert "The tuner" not in explain(load_slo(ROOT / "slo.yaml"), tuned=other)


def test_another_objective_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, slo={"objective": 0.99, "threshold_seconds": 0.1}, rate=20.5)
    told = explain(load_slo(ROOT / "slo.yaml"), tuned=load(path))
    assert "20.5 requests/s" in told
    assert "2026-03-04), but inside another objective, 99% under 100 ms: tune again." in told
    assert "may be bad" not in told


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "not valid JSON; expected the frontier.json of a search"),
        ("[]", "not what a search leaves; expected a frontier.json in which a rate was confirmed"),
        (json.dumps(record(kind="partial")), "not what a search leaves; expected a frontier.json in which a rate was"),
        (
            json.dumps(record(confirmations=[])),
            "not what a search leaves; expected a frontier.json in which a rate was",
        ),
    ],
)
def test_what_says_nothing_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "frontier.json"
    path.write_text(text)
    with pytest.raises(SloError, match=sentence):
        load(path)
    with pytest.raises(SloError, match=r"No such file or directory; expected the frontier\.json of a search"):
        load(tmp_path / "nothing")
