"""``gpumemprof advise --verify``: runs a program with remedies, and compares with the advice."""
