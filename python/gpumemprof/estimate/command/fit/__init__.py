"""``--fit``: remedies for a predicted program, proven by predicting it again with them."""
