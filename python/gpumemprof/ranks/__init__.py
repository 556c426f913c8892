"""Many ranks, one job: which is nearest to its limit, which differ from their like, and why.

`find` and `read` find and read the summaries of ranks, `jobs` sorts them into jobs, and `compare`
decides who is compared with whom and what is unusual. `report` joins what is found; `sentences`,
`text` and `table` say it, `as_json` and `page` write it for programs and for the browser.
"""
