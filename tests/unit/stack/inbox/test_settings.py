"""Where the inbox listens, keeps and asks, from the environment."""

import pytest

from stack.inbox.__main__ import InboxSettings


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({}, "http://127.0.0.1:9093"),
        ({"ALERTMANAGER_PORT": "19093"}, "http://127.0.0.1:19093"),
        ({"ALERTMANAGER_URL": "http://alertmanager:9093", "ALERTMANAGER_PORT": "19093"}, "http://alertmanager:9093"),
        ({"ALERTMANAGER_URL": " ", "ALERTMANAGER_PORT": ""}, "http://127.0.0.1:9093"),
    ],
)
def test_alertmanager_is_asked_where_it_listens(environment: dict[str, str], url: str) -> None:
    assert InboxSettings.from_environment(environment).alertmanager_url == url


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"INBOX_PORT": "0"}, "INBOX_PORT is '0'; expected a port from 1 to 65535"),
        ({"ALERTMANAGER_PORT": "am"}, "ALERTMANAGER_PORT is 'am'; expected a port from 1 to 65535"),
        (
            {"ALERTMANAGER_URL": "alertmanager:9093"},
            "ALERTMANAGER_URL is 'alertmanager:9093'; expected a URL such as http://127.0.0.1:9093",
        ),
        (
            {"ALERTMANAGER_URL": "file:///etc"},
            "ALERTMANAGER_URL is 'file:///etc'; expected a URL such as http://127.0.0.1:9093",
        ),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_sentence(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match="expected") as error:
        InboxSettings.from_environment(environment)
    assert str(error.value) == sentence
