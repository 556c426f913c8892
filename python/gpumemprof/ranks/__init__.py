"""Many ranks, one job: which is nearest to its limit, which differ from their like, and why.

`read` finds the summaries of ranks, `jobs` sorts them into jobs, `groups` decides who is compared
with whom, and `outliers`, `steps`, `failures` and `leaks` compare. `report` joins what they find;
`text` and `as_json` write it.
"""
