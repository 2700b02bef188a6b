"""Measurements on a GPU: answers, floors, operators beside peers, a tuning, a fitted model."""
