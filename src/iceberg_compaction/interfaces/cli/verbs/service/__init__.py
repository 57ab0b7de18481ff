"""The verb of the service."""
