! The layer follows Fortran programs as well: use mpi. Rank 0 takes what comes; Waitany says the first.
program fortran_mpi
  use mpi
  implicit none
  integer, parameter :: rounds = 20
  integer :: ierr, rank, ranks, i, k, value, which, path
  integer, asynchronous :: values(64)
  integer :: requests(64), status(MPI_STATUS_SIZE)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  path = 0
  do k = 1, rounds
    if (rank == 0) then
      do i = 1, ranks - 1
        call MPI_Recv(value, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierr)
        if (value /= status(MPI_SOURCE)) stop 3
        path = mod(path * 31 + value, 1000003)
      end do
      do i = 1, ranks - 1
        call MPI_Irecv(values(i), 1, MPI_INTEGER, MPI_ANY_SOURCE, 1000, MPI_COMM_WORLD, requests(i), ierr)
      end do
      call MPI_Barrier(MPI_COMM_WORLD, ierr)
      do i = 1, ranks - 1
        call MPI_Waitany(ranks - 1, requests, which, MPI_STATUS_IGNORE, ierr)
        path = mod(path * 31 + which, 1000003) ! MPICH 4.0.2 counts from 0 in mpi_f08
      end do
      path = path + sum(values(1:ranks - 1))
    else
      call MPI_Send(rank, 1, MPI_INTEGER, 0, k, MPI_COMM_WORLD, ierr)
      call MPI_Barrier(MPI_COMM_WORLD, ierr)
      call MPI_Send(rank, 1, MPI_INTEGER, 0, 1000, MPI_COMM_WORLD, ierr)
    end if
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  value = path
  call MPI_Bcast(value, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  call MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a, i0)', 'fortran: path ', value
  call MPI_Finalize(ierr)
end program
