"""What a plan of a rewrite is made on: the policy of the table, the look at it, and the money that is left. In: a table
and a policy or its rule. Out: values that the planner takes."""
