"""What the pipeline writes to: the Markdown journal and, in its shadow, the index."""
