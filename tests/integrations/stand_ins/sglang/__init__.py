"""A stand-in for SGLang, which cannot be installed here: its launcher, the process that it starts,
and the methods that allocate, by the names that SGLang gives them."""
