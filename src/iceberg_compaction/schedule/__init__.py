"""When tables are looked at and worked on: due times, catch-up, jitter, looks, suspension, urgency. Pure: moments and
what is known of a table come in, decisions go out."""
