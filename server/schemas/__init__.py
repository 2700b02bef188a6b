"""Pydantic models of the wire: strict, bounded, without extra fields."""
