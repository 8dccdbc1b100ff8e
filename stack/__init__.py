"""Runs the whole stack without Docker: supervisor, live page, alert inbox, demo."""
