"""Request and reply formats: bytes in, rows out."""
