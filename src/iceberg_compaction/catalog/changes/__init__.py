"""Which tables have changed, as cheaply as a catalog can say it."""
