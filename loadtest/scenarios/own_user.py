"""One's own user class under the schedule, by example: predictions of one row or many, and now and then a check.

    locust -f loadtest/locustfile.py,loadtest/scenarios/own_user.py Client --rate 50

Copy it and put in what your service is asked. Any HttpUser, FastHttpUser or plain User can follow OnSchedule.
"""

from locust import FastHttpUser, SequentialTaskSet, tag, task

from loadtest.scheduled import OnSchedule

ROW = [0.0] * 64  # the built-in model's features


class Client(OnSchedule, FastHttpUser):
    """One arrival is one task; how often which, the weights say. The rate is that of all tasks together."""

    @task(8)
    def predict(self) -> None:
        """The usual request."""
        self.client.post("/predict", json={"instances": [ROW]})

    @task(1)
    def predict_many(self) -> None:
        """A check of one's own: a reply of the wrong length has failed, and so has its arrival."""
        rows = [ROW] * 16
        with self.client.post(
            "/predict", json={"instances": rows}, name="/predict of 16", catch_response=True
        ) as reply:
            if reply.status_code == 200 and len(reply.json()["predictions"]) != len(rows):
                reply.failure("not one prediction per row")

    @task(1)
    class Look(SequentialTaskSet):
        """Steps that follow each other. Each waits for an arrival of its own."""

        @tag("health")
        @task
        def ready(self) -> None:
            """First this."""
            self.client.get("/readyz")

        @task
        def then_predict(self) -> None:
            """Then that, and back to the other tasks."""
            self.client.post("/predict", json={"instances": [ROW]})
            self.interrupt()  # type: ignore[no-untyped-call]
