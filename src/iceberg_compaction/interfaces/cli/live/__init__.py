"""Progress while tables are compacted. In: events of runs. Out: lines and bars on standard error."""
