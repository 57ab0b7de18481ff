"""Workers: they pull work from the run store, do it through the workflow that the command line uses, and write down how
it ended."""
