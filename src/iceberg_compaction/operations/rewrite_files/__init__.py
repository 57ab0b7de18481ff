"""The operation that rewrites data files. In: a policy or an earlier plan, with the table, the run and an engine. Out:
commits that replace groups of files, and the outcome. Plans are made, rebased, saved and made again here; `groups`
turns results of tasks into proved groups, and `change` is the commit."""
