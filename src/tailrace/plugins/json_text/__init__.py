"""JSON of columns, for the plugins that print it: values and names as literals, many at a time."""
