"""Making, joining, cutting and reducing tensors. These ops need no `use` and no prefix."""
