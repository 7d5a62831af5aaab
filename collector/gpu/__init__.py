"""What the gpu probe is made of: the vendors' texts, their libraries, and tools that do not come back."""
