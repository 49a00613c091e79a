#!/bin/bash
# The same for four ranks of MPICH on two nodes. mpiexec, not srun, starts them (docs/slurm.md).
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=4:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
export UCX_TLS=tcp,self
exec cairn slurm run --interval 900 -- mpiexec -n 4 ./simulate input.dat
