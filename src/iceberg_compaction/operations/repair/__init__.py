"""The operation `repair`: metadata that does not fit the files of a table is found, and mended by commits of its
own."""
