"""Who may ask the service for what: a header comes in, a principal or a refusal goes out."""
