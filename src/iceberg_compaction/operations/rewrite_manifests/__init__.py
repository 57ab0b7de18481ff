"""The operation `rewrite_manifests`. A table comes in; a plan of manifests to rewrite, the new manifests, and a
committed snapshot with the same live files go out. Knows metadata, the spine of commits and the run; no engine and no
data file."""
