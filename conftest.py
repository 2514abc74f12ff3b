"""What pytest leaves out where something is not installed."""

import importlib.util

collect_ignore = [] if importlib.util.find_spec("torch") else ["seqkit/torch.py"]
