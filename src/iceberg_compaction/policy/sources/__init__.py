"""The sources of policies: files in YAML and JSON, Polaris' policies, the properties of a table. In: text and
properties. Out: sections with settings, each with its origin."""
