"""Where the files of ranks are, and who reads them: this machine or a cluster."""
