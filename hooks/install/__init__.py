"""Putting memsearch into the agents' own configuration, and taking it out again."""
