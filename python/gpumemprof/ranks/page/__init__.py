"""The page that shows the ranks of a job as a heat map over steps.

`cells` makes the figures of its rows and columns, `job_page` everything else about a job, `packed`
puts it into the HTML file, and `serve` opens it from a local server.
"""
