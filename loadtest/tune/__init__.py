"""`python -m loadtest tune`: the search of `loadtest.analysis.tuner` on a service that runs."""
