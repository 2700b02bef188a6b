"""Checks of `ansorpy doctor`: requirements of this machine, and remedies for missing ones."""
