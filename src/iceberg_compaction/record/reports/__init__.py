"""Runs of a store for people: reported in full, and followed while they work."""
