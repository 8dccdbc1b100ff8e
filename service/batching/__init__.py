"""The micro-batcher. Pure: standard library only; knows no HTTP, no event loop, no numpy, no metrics library."""
