#!/bin/bash
# As podman.sh, with Docker:
#     docker.sh run FOLDER IMAGE PROGRAM ARGUMENTS...
#     docker.sh again FOLDER IMAGE
# Docker's default profile suffices. OPTIONS=--cap-add=SYS_PTRACE shortens the pause of a checkpoint.
ENGINE=docker exec "$(dirname "$0")/podman.sh" "$@"
