#!/bin/bash
# A job that may be preempted and requeued, and goes on from its newest checkpoint: sbatch serial.sh (docs/slurm.md)
#SBATCH --job-name=simulate
#SBATCH --time=4:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
exec cairn slurm run --interval 900 -- ./simulate input.dat
