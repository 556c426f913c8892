"""A stand-in for vLLM, which cannot be installed here: its loader of plugins, its command, the
processes that it starts and the methods of its worker, by the names that vLLM gives them."""
