"""The request of a tuning: tensor programs, a target and options, checked together."""
