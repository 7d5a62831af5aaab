"""Call-backs for training frameworks: what no recorder can see from outside, marked as phases. docs/frameworks.md."""
