"""Triggers: which partitions, or which tables by their stored health, are worth planning at all, and why. Pure. The
thresholds are in `model.triggers`, what they are compared with is in `decision_table`."""
