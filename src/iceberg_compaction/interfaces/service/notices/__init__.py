"""Webhooks: notices come in, and HTTP requests go out, again and again until somebody takes them."""
