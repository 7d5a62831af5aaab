"""One way to gather evidence per file; `collector/plan.py` lists them in the order they run."""
