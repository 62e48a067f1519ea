"""What the agents run: ``enqueue`` and what is installed in them."""
