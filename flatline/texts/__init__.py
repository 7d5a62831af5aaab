"""What tools and the kernel print, read into facts: pure functions that the collector and the analyzer share.

Standard library only, Python 3.9 syntax.
"""
