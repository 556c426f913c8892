"""Explains a failure for lack of memory at the moment it happens.

`spot` notices the failure, `explanation` has another process read the recording, `message` reads
what torch itself says.
"""
