"""Which processes the job consists of, what each one is, and which job is meant when none was named."""
