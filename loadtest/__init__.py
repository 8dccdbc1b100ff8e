"""Open-loop load on Locust: arrivals decide when a request starts, and latency counts from the scheduled instant."""
