"""Stands beside the stuck job and writes a bundle. Standard library only, Python 3.9 syntax."""
