"""One file per strategy behind one seam. Files, bins and a planning request come in; candidates, grouping, order and
output layout go out. A strategy knows the columns of planning, and planning knows no strategy by name."""
