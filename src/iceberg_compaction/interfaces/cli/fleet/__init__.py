"""The tables of one command: names become tables of the catalog, and these are planned or compacted, one by one or side
by side. In: options. Out: plans or outcomes, one for each table."""
