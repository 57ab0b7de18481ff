"""Groups of flags that are too many for `options`: each is a class that options inherit. In: a command line. Out: text,
which the policy checks."""
