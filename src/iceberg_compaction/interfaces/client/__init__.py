"""The service from outside: a client for programs, and for the command line with `--server`."""
