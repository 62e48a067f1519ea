"""One way to find what was remembered: search, expand, transcript."""
