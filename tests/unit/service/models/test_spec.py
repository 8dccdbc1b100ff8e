import pytest

from service.models import ModelError, parse_model


@pytest.mark.parametrize(
    ("text", "kind", "name", "facts"),
    [
        ("digits", "digits", "digits", {"trees": 200}),
        ("digits?trees=20", "digits", "digits", {"trees": 20}),
        ("models/churn.skops", "skops", "churn", {"path": "models/churn.skops"}),
        ("/srv/a.b/Churn.ONNX", "onnx", "Churn", {"path": "/srv/a.b/Churn.ONNX"}),
        ("m.joblib", "joblib", "m", {"path": "m.joblib"}),
        ("synthetic", "synthetic", "synthetic", {"fixed_seconds": 0.004, "per_row_seconds": 0.0001, "features": 8}),
        (
            "synthetic?fixed_seconds=0&per_row_seconds=0.002&features=3",
            "synthetic",
            "synthetic",
            {"fixed_seconds": 0.0, "per_row_seconds": 0.002, "features": 3},
        ),
    ],
)
def test_what_is_understood(text: str, kind: str, name: str, facts: dict[str, object]) -> None:
    spec = parse_model(text)
    assert (spec.kind, spec.name, spec.text) == (kind, name, text)
    assert {field: getattr(spec, field) for field in facts} == facts


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the model '' is none that is known; expected digits"),
        ("digit", "the model 'digit' is none that is known; expected digits"),
        ("model.h5", "the model 'model.h5' is none that is known"),
        ("model.pkl", "is a pickle, which runs any code it holds"),
        ("digits?trees=0", "has trees=0; expected a whole number from 1 to 100000"),
        ("digits?trees=-5", "has trees=-5; expected a whole number"),
        ("digits?trees=ten", "has trees=ten; expected a whole number"),
        ("digits?trees=", "has trees=; expected a whole number"),
        ("digits?trees=²", "expected a whole number"),
        ("digits?tress=5", "has no option 'tress'; expected trees"),
        ("digits?trees", "has options that cannot be read"),
        ("digits?trees=5&trees=6", "gives an option twice"),
        ("synthetic?fixed_seconds=-1", "has fixed_seconds=-1; expected seconds from 0 to 60"),
        ("synthetic?fixed_seconds=nan", "has fixed_seconds=nan; expected seconds"),
        ("synthetic?per_row_seconds=1e3", "has per_row_seconds=1e3; expected seconds"),
        ("synthetic?features=0", "has features=0; expected a whole number"),
    ],
)
def test_what_is_refused_with_one_sentence(text: str, says: str) -> None:
    with pytest.raises(ModelError) as refusal:
        parse_model(text)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)
