"""Attacks on what ansorpy takes from outside."""
