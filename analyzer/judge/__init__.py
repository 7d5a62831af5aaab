"""The rule language: load, check, evaluate, rank."""
