"""Notations that become a Dag: text of Tensor Comprehensions, JSON, einsum."""
