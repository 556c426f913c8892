"""gpumemprof inside other tools. Each part needs its tool, is imported only by those who use it."""
