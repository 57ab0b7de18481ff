"""Clients of clouds that need limits or words of their own; S3 has a room of its own. Properties and errors come in."""
