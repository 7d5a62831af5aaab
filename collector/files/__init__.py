"""What the logs and files probes are made of: which paths, whose text, how much of it."""
