"""Reads bundles anywhere, names the cause, renders the report. Never imports the collector."""
