"""Which delete files apply to which data files (R17-R24). Live files of a snapshot come in as Arrow columns; counts,
lists and masks of rows go out. Knows manifests and positions of rows, and never reads a data file; of delete files it
reads only the column of paths."""
