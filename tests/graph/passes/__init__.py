"""Tests of the passes over graphs."""
