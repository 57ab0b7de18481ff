"""Health as a page of HTML. In: `TableHealth` of tables. Out: one self-contained text. It may know the vocabulary
alone."""
