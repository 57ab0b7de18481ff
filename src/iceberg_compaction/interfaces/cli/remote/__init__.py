"""Commands that a service performs: `iceberg-compact --server URL VERB`. The same words as without, fewer options."""
