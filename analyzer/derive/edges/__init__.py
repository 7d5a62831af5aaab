"""Whom a blocked thread waits for: one file for each family of waits, in the order they are asked (see `waits`)."""
