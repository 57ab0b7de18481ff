"""One module per verb of the command line. In: its flags. Out: an exit code, and text or JSON. A verb imports its rooms
when it is called, so that `--help` is fast."""
