"""What open-loop arrivals are set against: Locust's own quick client in a closed loop, `locust -f` this file.

It posts the same bodies as the default user of `loadtest`.
"""

from locust import FastHttpUser, task

from loadtest.rows import digit_rows, instances

BODIES = [instances([row]).decode() for row in digit_rows()[:64]]


class Closed(FastHttpUser):
    """Asks again as soon as it is answered."""

    sent = 0

    @task
    def ask(self) -> None:
        """One request."""
        self.sent += 1
        self.client.post("/predict", data=BODIES[self.sent % len(BODIES)], headers={"Content-Type": "application/json"})
