"""The shapes of what operations return, where torch does not know them or is slow to find them."""
