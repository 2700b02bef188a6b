"""Rule sets: found, loaded from files of the user, checked against the oracle."""
