"""`python -m loadtest run`: one load from start to verdict, its result and its report."""
