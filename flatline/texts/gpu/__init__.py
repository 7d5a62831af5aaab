"""What the tools and drivers of accelerators print."""
