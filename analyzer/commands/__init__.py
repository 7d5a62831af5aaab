"""Commands of the analyzing side: they alone print and choose exit codes."""
