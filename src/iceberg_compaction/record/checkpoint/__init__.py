"""Checkpoints in the run store: the plan of a run with the results of its tasks, owned by one run at a time."""
