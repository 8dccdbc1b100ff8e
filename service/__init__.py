"""The model service: a Flask app with an ASGI front, a threaded micro-batcher behind both."""
