"""``gpumemprof calibrate``: measures the workspaces of convolutions on this machine's GPU."""
