"""What a table refers to: snapshots come in, the paths of everything that they need go out, as Arrow batches. Callers
delete what is missing here, so nothing is deduced, and whatever cannot be read is a MetadataError."""
