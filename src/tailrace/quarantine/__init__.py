"""Changes that could not be applied, and wait in quarantine until they can be: as rows that anybody can read, and back."""
