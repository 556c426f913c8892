"""Programs of several processes: each rank is predicted alone, with collectives that return."""
