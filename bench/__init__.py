"""Benchmarks: what batching buys, and ours beside peers."""
