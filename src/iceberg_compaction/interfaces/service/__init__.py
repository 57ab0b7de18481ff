"""The service: settings come in; REST, a scheduler and workers come out. A thin outside: everything that it does goes
through the workflow, the policies, the run store and the events that the command line uses."""
