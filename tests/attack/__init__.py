"""Attacks on the inputs of ansorpy."""
