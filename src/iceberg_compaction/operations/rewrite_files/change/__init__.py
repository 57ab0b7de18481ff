"""The change of `rewrite_files` for the spine of commits. Groups of replaced and staged files come in; a snapshot goes
out that removes the first and adds the second, or the reasons why groups are in conflict. Knows metadata, commit and
the table; no plan, no engine."""
