"""Reasons that a result gives: suspects of failures, contrast of the winner, remedies."""
