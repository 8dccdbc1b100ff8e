"""Pure statistics of latency: quantiles, intervals, verdicts, reports."""
