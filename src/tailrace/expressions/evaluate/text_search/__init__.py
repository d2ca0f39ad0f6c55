"""tsvector and tsquery."""
