"""Row groups are copied as bytes where that is right and pays off.

In: footers, deletes and the form of the output. Out: steps that copy or encode, and the measurements of what was copied.
It may know: `input`, `deletes` and the writer; it bypasses `arrange`, because copied rows keep their order."""
