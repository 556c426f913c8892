"""Watches recordings while programs write them: ``gpumemprof live`` and ``run --live``.

The native `_core.FollowedRun` reads and computes; this package finds the files, says what became of
their processes, and draws. Only ``screen`` imports Textual, which is optional.
"""
