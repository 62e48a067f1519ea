"""Long-term memory for coding agents, kept in Markdown that a person can open, read and edit."""

__version__ = "0.1.0"
