"""The knowledge: one YAML rule per file, its tests beside it. Data only, read through importlib.resources."""
