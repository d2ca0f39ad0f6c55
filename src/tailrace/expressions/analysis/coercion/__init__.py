"""Which type becomes which, and how (`parser/parse_coerce.c`)."""
