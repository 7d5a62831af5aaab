"""Texts that people paste, read into the same facts that collect gives: a file per kind of text, listed in registry.py.

A parser is a pure function from lines to rows; see interface.py.
"""
