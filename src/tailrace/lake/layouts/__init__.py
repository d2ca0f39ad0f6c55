"""What the tables of a lake hold of the source's: each layout brings up a table in its own way (`layout.py`)."""
