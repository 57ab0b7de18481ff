"""Verbs of housekeeping; each makes its operations from flags, and `fleet.upkeep_verb` performs them."""
