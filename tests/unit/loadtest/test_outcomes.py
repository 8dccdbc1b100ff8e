"""What a failure is named after says whose mistake it was."""

from loadtest.outcomes import client_errors


def test_client_errors_are_those_that_a_caller_could_have_avoided() -> None:
    failures = {"HTTP 404": 3, "HTTP 400": 1, "HTTP 429": 5, "HTTP 500": 2, "HTTP 503": 1, "timed out": 4, "HTTP x": 1}
    assert client_errors(failures) == {"HTTP 404": 3, "HTTP 400": 1}
