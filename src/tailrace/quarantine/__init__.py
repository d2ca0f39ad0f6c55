"""Changes that could not be applied, and are kept until they can be: as rows that anybody can read, and back."""
