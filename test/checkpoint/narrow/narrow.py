"""narrow.py NAME: the same as resource.py NAME, restarted as where the limit of descriptors is too low for all of them at once: other
processes keep them."""
import os
import runpy

os.environ["CAIRN_FEW_DESCRIPTORS"] = "1"
test = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "resource.py"))["test"]
