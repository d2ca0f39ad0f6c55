"""What a parsed node becomes: `nodes` knows every kind, and each other file a group (`parser/parse_expr.c`, `parse_func.c`, `parse_oper.c`)."""
