"""``gpumemprof export``: the ranks of jobs as Parquet tables, for any engine that reads them."""
