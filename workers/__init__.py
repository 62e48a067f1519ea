"""The one background process of a home: consumer, recovery, service."""
