"""Verbs for people who come from other tools: their words go in, our commands come out."""
