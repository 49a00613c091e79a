! The layer follows Fortran programs as well: use mpi_f08. Rank 0 takes what comes; Waitany says the first.
program fortran_f08
  use mpi_f08
  implicit none
  integer, parameter :: rounds = 20
  integer :: ierr, rank, ranks, i, k, value, which, path
  integer, asynchronous :: values(64)
  type(MPI_Request) :: requests(64)
  type(MPI_Status) :: status
  include 'fortran_path.inc'
contains
  integer function source_of(of)
    type(MPI_Status), intent(in) :: of
    source_of = of%MPI_SOURCE
  end function
end program
