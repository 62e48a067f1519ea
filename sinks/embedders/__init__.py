"""Text to vectors: the model that works offline, and any compatible endpoint."""
