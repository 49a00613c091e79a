"""heirs.py NAME: the same as resource.py NAME, in a restart whose children are born of their restored parents wherever that can be, as
otherwise only those that have much memory in common with them (docs/decisions/0027-shared-pages.md). What hasn't changed since the
checkpoint before is named, and not stored anew, as otherwise where there is more of it."""
import os
import runpy

os.environ["CAIRN_INHERIT"] = os.environ["CAIRN_LINK"] = "always"
test = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "resource.py"))["test"]
