"""The alert inbox: what would have paged somebody, kept and shown."""
