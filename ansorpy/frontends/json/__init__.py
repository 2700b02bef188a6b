"""The JSON form of a Dag."""
