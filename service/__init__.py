"""The model service: a Flask app, a front that takes inference past it, and a threaded micro-batcher behind both."""
