#!/usr/bin/python3
"""Makes debugger-page.png: the page of `cairn mpi debug --web` with examples/mpi/heat.c, in a headless chromium. record_debugger.py BUILD"""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/../../test/support")
from cairn_test.browser import Browser  # noqa: E402
from cairn_test.mpi_job import Job  # noqa: E402
from cairn_test.web_client import Web  # noqa: E402


def main():
    job = Job(os.path.abspath(sys.argv[1]), "mpich")
    program = [job.program("heat"), "4", "16", "6"]
    job.record(6, "heat", program, options=["--checkpoints", "fdas", "--checkpoint-every", "20"])
    with Web(job, ["--every", "12", "heat", *program]) as web, Browser((1280, 860)) as page:
        page.do("Page.navigate", url=web.url + "#light")
        while not page.value("typeof standing !== 'undefined' && standing !== null"):
            time.sleep(0.1)
        web.command("to 2:35")
        web.answer()
        web.console("why 2")
        web.answer()
        web.command("back")
        page.value("(choose(link[sends.find(s => proc[s] === 3 && link[s] >= 0 && link[s] - first[2] > 24 && proc[link[s]] === 2)]), fit(), 0)")
        while "heat.c" not in page.value("byId('about').querySelector('pre').textContent"):
            time.sleep(0.1)
        time.sleep(0.5)
        page.picture(f"{HERE}/debugger-page.png")
    job.remove()


main()
