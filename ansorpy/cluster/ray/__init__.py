"""Slots of a Ray cluster: Ray carries bytes, and is imported in processes of its own only."""
