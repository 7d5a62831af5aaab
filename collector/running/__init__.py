"""Stands around a running job: passes its output on, sees when it falls silent, collects, ends it if asked."""
