#!/bin/bash
# Train on every GPU of four nodes:
#
#     qsub examples/pbs.sh
#
# dsrun reads the nodes from PBS_NODEFILE and connects to them over ssh, which must work between the
# nodes without a password. Each node counts its own GPUs; --num_gpus N uses the first N of each.

#PBS -N train
#PBS -l select=4:ncpus=64:ngpus=8
#PBS -l walltime=08:00:00
#PBS -j oe

cd "$PBS_O_WORKDIR" || exit

exec dsrun --log_dir logs examples/train_ddp.py --checkpoint "checkpoint-$PBS_JOBID.pt"

# If ssh is not allowed, an mpirun that was built for PBS can start the nodes:
# exec dsrun --launcher openmpi --log_dir logs examples/train_ddp.py --checkpoint ...
