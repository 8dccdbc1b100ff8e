"""Settings: what is read, and the sentence for each thing that cannot be."""

import dataclasses
from pathlib import Path

import pytest

from service import settings
from service.settings import Settings, SettingsError


def test_defaults_are_the_contract() -> None:
    read = Settings.from_environment({})
    assert (read.model, read.model_name, read.model_workers) == ("digits", None, 1)
    assert (read.batching_policy, read.max_batch_rows, read.max_wait_seconds) == ("adaptive", 128, 0.005)
    assert (read.queue_capacity_rows, read.request_timeout_seconds) == (1024, 1.0)
    assert (read.max_request_rows, read.max_request_bytes) == (1024, 8388608)
    assert (read.host, read.port, read.admin_host, read.admin_port) == ("127.0.0.1", 8000, "127.0.0.1", 8001)
    assert (read.drain_grace_seconds, read.drain_timeout_seconds) == (2.0, 10.0)
    assert (read.admin_token, read.allow_pickle, read.slo_file) == (None, False, Path("slo.yaml"))


def test_every_field_is_read_from_its_variable() -> None:
    given = {
        "SERVICE_MODEL": "synthetic?features=2",
        "SERVICE_MODEL_NAME": "two",
        "SERVICE_MODEL_WORKERS": "0",
        "SERVICE_MODEL_CACHE_DIR": "/tmp/models",
        "SERVICE_BATCHING_POLICY": "fixed",
        "SERVICE_MAX_BATCH_ROWS": "64",
        "SERVICE_MAX_WAIT_SECONDS": "0.01",
        "SERVICE_TUNED_RATE": "1480.5",
        "SERVICE_QUEUE_CAPACITY_ROWS": "512",
        "SERVICE_REQUEST_TIMEOUT_SECONDS": "2.5",
        "SERVICE_MAX_REQUEST_ROWS": "256",
        "SERVICE_MAX_REQUEST_BYTES": "1000000",
        "SERVICE_HOST": "0.0.0.0",
        "SERVICE_PORT": "9000",
        "SERVICE_ADMIN_HOST": "127.0.0.2",
        "SERVICE_ADMIN_PORT": "9001",
        "SERVICE_ADMIN_TOKEN": "s3cret",
        "SERVICE_DRAIN_GRACE_SECONDS": "0",
        "SERVICE_DRAIN_TIMEOUT_SECONDS": "3",
        "SERVICE_ALLOW_PICKLE": "TRUE",
        "SLO_FILE": "other.yaml",
    }
    assert set(given) == {settings.variable(field.name) for field in dataclasses.fields(Settings)}
    read = Settings.from_environment(given)
    defaults = Settings()
    for field in dataclasses.fields(Settings):
        assert getattr(read, field.name) != getattr(defaults, field.name), field.name
    assert read.model_cache_dir == Path("/tmp/models")
    assert read.allow_pickle is True
    assert read.max_wait_seconds == 0.01


def test_empty_means_the_default() -> None:
    """Compose passes an unset variable as an empty one."""
    assert Settings.from_environment({"SERVICE_ADMIN_TOKEN": "", "SERVICE_PORT": " "}) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("SERVICE_PORT", "http", "SERVICE_PORT is 'http'; expected a whole number from 1 to 65535"),
        ("SERVICE_PORT", "0", "SERVICE_PORT is '0'; expected a whole number from 1 to 65535"),
        # what a cluster sets for a Service that is named "service"
        ("SERVICE_PORT", "tcp://10.0.0.1:80", "SERVICE_PORT is 'tcp://10.0.0.1:80'; expected a whole number from 1 to"),
        ("SERVICE_MAX_BATCH_ROWS", "0", "SERVICE_MAX_BATCH_ROWS is '0'; expected a whole number from 1 to 65536"),
        ("SERVICE_MAX_BATCH_ROWS", "1e2", "SERVICE_MAX_BATCH_ROWS is '1e2'; expected a whole number from 1 to 65536"),
        ("SERVICE_MAX_BATCH_ROWS", "²", "SERVICE_MAX_BATCH_ROWS is '²'; expected a whole number from 1 to 65536"),
        ("SERVICE_MAX_WAIT_SECONDS", "-1", "SERVICE_MAX_WAIT_SECONDS is '-1'; expected seconds from 0 up to 60"),
        ("SERVICE_TUNED_RATE", "0", "SERVICE_TUNED_RATE is '0'; expected requests per second above 0"),
        ("SERVICE_TUNED_RATE", "inf", "SERVICE_TUNED_RATE is 'inf'; expected requests per second above 0"),
        ("SERVICE_MAX_WAIT_SECONDS", "nan", "SERVICE_MAX_WAIT_SECONDS is 'nan'; expected seconds from 0 up to 60"),
        ("SERVICE_MAX_WAIT_SECONDS", "5ms", "SERVICE_MAX_WAIT_SECONDS is '5ms'; expected seconds from 0 up to 60"),
        (
            "SERVICE_REQUEST_TIMEOUT_SECONDS",
            "0",
            "SERVICE_REQUEST_TIMEOUT_SECONDS is '0'; expected seconds above 0 and up to 3600",
        ),
        ("SERVICE_BATCHING_POLICY", "eager", "SERVICE_BATCHING_POLICY is 'eager'; expected adaptive or fixed"),
        ("SERVICE_ALLOW_PICKLE", "maybe", "SERVICE_ALLOW_PICKLE is 'maybe'; expected true or false"),
        ("SERVICE_MODEL_WORKERS", "65", "SERVICE_MODEL_WORKERS is '65'; expected a whole number from 0 to 64"),
        (
            "SERVICE_MODEL_NAME",
            "a/b",
            "SERVICE_MODEL_NAME is 'a/b'; expected letters, digits, '.', '_' and '-'",
        ),
        ("SERVICE_ADMIN_TOKEN", "two words", "SERVICE_ADMIN_TOKEN is not usable; expected printable ASCII without"),
        (
            "SERVICE_MAX_BATCH_SIZE",
            "8",
            "SERVICE_MAX_BATCH_SIZE is not a setting of the service; did you mean",
        ),
        ("SERVICE_XYZZY", "8", "SERVICE_XYZZY is not a setting of the service; README lists the settings"),
        ("PROMETHEUS_MULTIPROC_DIR", "/tmp/x", "PROMETHEUS_MULTIPROC_DIR is set; the service keeps all its metrics in"),
    ],
)
def test_a_bad_value_is_one_sentence(name: str, value: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({name: value})
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["SERVICE_MAX_REQUEST_ROWS", "SERVICE_MAX_BATCH_ROWS"])
def test_nothing_may_be_larger_than_the_queue(name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({name: "2000"})
    assert str(caught.value) == (
        f"{name} is 2000, above SERVICE_QUEUE_CAPACITY_ROWS, which is 1024; expected no more than the queue can hold"
    )


def test_the_two_ports_must_differ() -> None:
    with pytest.raises(SettingsError, match="are both 8001; expected two different ports"):
        Settings.from_environment({"SERVICE_PORT": "8001"})


def test_the_token_is_never_shown() -> None:
    assert "s3cret" not in repr(Settings.from_environment({"SERVICE_ADMIN_TOKEN": "s3cret"}))


def test_the_table_has_a_row_for_each_setting() -> None:
    rows = list(settings.table())
    assert [name for name, _, _ in rows] == [settings.variable(field.name) for field in dataclasses.fields(Settings)]
    defaults = {name: default for name, default, _ in rows}
    assert defaults["SERVICE_MAX_WAIT_SECONDS"] == "0.005"
    assert defaults["SERVICE_ALLOW_PICKLE"] == "false"
    assert defaults["SERVICE_MODEL_NAME"] == "from the model"
    assert defaults["SERVICE_ADMIN_TOKEN"] == "none"
    assert all(meaning for _, _, meaning in rows)
