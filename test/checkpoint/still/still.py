"""still.py NAME: the same as resource.py NAME, of programs whose memory is copied while they stand still instead of being written from a
copy-on-write child, as otherwise only that of small ones of which there are many (docs/decisions/0047-small-processes.md)."""
import os
import runpy

os.environ["CAIRN_COPY_SMALL"] = "always"
test = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "resource.py"))["test"]
