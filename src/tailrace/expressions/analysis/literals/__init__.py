"""Literals without a type of their own, read as the input function of the type that they turn out to have reads them."""
