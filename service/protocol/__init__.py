"""Request and reply formats: bytes in, rows out; rows in, bytes out. Knows numpy and JSON, no HTTP server."""
