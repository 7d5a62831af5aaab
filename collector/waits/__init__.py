"""What a blocked thread sleeps on, read from its memory: locks and their owners, who shares them, timeouts,
what a poll watches."""
