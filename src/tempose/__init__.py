"""tempose."""
