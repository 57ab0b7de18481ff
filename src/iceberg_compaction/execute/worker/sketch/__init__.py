"""Tasks that write nothing and count distinct values: rows come in, a sketch of each column goes out."""
