"""Row groups are copied as bytes where that is right and pays off.

In: footers, deletes and the form of the output. Out: steps that copy or encode, measurements of copies.
It may know: `input`, `deletes` and the writer; it bypasses `arrange`, because copied rows keep their order."""
