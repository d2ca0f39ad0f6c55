"""The files of a table's rows, whatever its format: written, read, looked through, edited and gathered."""
