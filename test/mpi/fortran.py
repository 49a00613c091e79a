"""Fortran programs, by mpif.h, `use mpi` and `use mpi_f08`: the recorded path again, and departures are told with the line in Fortran."""
from cairn_test.mpi_job import chance, expect, order


def test(job, given):
    for name in ("fortran_77", "fortran_mpi", "fortran_f08"):
        program = [job.program(name)]
        out, err = job.record(4, name, program)
        expect("path" in out, out)
        # Where nothing is left to chance a replay shows nothing.
        expect(chance(err) > 0, f"{name} can't take another path than this:\n{err}")
        for i in range(given.rounds):
            again, err2 = job.replay(4, name, program, options=["--trace", f"t{i}-{name}"])
            expect(again == out and order(err2) == order(err), f"{name}, replay {i}:\n{again}{err2}\nrecorded\n{out}{err}")
        lines, _ = job.run([job.cairn, "causality", "convert", "--to", "lines", *[f"t0-{name}/trace.{r}" for r in range(4)], "-"])
        expect("fortran_path.inc:" in lines and '"e":"receive"' in lines.replace('": "', '":"'),
               f"{name}: no calls with lines of the source:\n{lines[:2000]}")
