"""The search for the most throughput inside an objective: what to measure next, and what came of it. Pure."""
