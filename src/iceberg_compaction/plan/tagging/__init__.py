"""Decides which tags a table lacks. Snapshots, tags and a goal come in; tags to make, and why others are not made, go
out."""
