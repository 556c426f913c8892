"""The screen of ``gpumemprof live``; needs Textual, which is optional."""
