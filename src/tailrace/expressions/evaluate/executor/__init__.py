"""A filter made ready and carried out (`executor/execExpr.c`): an expression becomes functions over columns, which say what rows it lets through."""
