"""The recorder that is loaded into the job itself: one file, `start/sitecustomize.py`, put on its PYTHONPATH."""
