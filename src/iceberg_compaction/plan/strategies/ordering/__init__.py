"""The core of strategies that sort: which files are in order, and which must be sorted together. In: candidate files.
Out: candidates, bins and verdicts."""
