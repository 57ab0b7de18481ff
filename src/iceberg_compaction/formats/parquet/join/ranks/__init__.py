"""Pages of indexes into a dictionary, made of ranks: numbers come in, the data pages of a column go out. Knows nothing
of values."""
