"""What the stacks probe is made of: py-spy, thread ids, source lines, what polling threads wait for."""
