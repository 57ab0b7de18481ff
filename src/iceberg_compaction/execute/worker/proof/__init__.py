"""Rows and files are measured, and the measurements of source, sink and copies become a proof.

In: batches where they pass, and finished files. Out: sides that add up over processes, and the proof of a task.
It may know: hashes of values, and storage to read outputs back; never the code between source and sink."""
