"""What rewrites cost and save. In: figures of groups, prices and rates. Out: estimates in dollars, and whether a group
pays. Pure."""
