"""One conversation turn to a few third-person notes."""
