"""The entries of a run store: keys with text, in memory, in a database or in a key-value server."""
