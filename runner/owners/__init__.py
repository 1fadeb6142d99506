"""Whose a server is, and what may be removed."""
