"""Groups of flags that `options` puts together, each with one subject."""
