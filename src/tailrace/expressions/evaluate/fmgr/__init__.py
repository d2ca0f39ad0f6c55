"""How a built-in function is called (`utils/fmgr`): what pg_proc says of it, the vectors that it takes and gives, and the form of values in them."""
