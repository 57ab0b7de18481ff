"""The scheduler: one process of a service at a time looks which tables have changed, which are due, and puts work into
the queue. Its knowledge is in the run store, so that any process can go on with it."""
