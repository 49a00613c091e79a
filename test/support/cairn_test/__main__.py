"""python3 -m cairn_test FILE [OPTIONS]: runs one test (`test/run FILE` finds this package). With --mpi one of the tests of test/mpi."""
import os
import runpy
import sys

# However it was started, the test finds this package; its own folder comes last: there may be a resource.py in it.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
from cairn_test import main, mpi_job  # noqa: E402

if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
    sys.exit("usage: python3 -m cairn_test FILE [--mode MODE] [--soak] ...; what there is more: FILE --help")
del sys.argv[0]
sys.argv[0] = os.path.abspath(sys.argv[0])
sys.path.append(os.path.dirname(sys.argv[0]))
found = runpy.run_path(sys.argv[0], run_name="cairn_test_file")
if "--mpi" in sys.argv:
    mpi_job.main(found["test"])
else:
    main(found["test"], needs=found.get("NEEDS", ()))
