#!/usr/bin/python3
"""Memory comes back as well where the kernel has neither PAGEMAP_SCAN nor userfaultfd."""
import os
import runpy
import sys

os.environ["CAIRN_NO_PAGEMAP_SCAN"] = os.environ["CAIRN_NO_USERFAULTFD"] = "1"
sys.argv.append("memory")
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "resource.py"), run_name="__main__")
