"""Commands of the collecting side: they alone print and choose exit codes."""
