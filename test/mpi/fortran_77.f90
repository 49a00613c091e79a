! The layer follows Fortran programs as well: mpif.h. Rank 0 takes what comes; Waitany says the first.
program fortran_77
  implicit none
  include 'mpif.h'
  integer, parameter :: rounds = 20
  integer :: ierr, rank, ranks, i, k, value, which, path
  integer, asynchronous :: values(64)
  integer :: requests(64), status(MPI_STATUS_SIZE)
  include 'fortran_path.inc'
contains
  integer function source_of(of)
    integer, intent(in) :: of(MPI_STATUS_SIZE)
    source_of = of(MPI_SOURCE)
  end function
end program
