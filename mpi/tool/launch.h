// Becomes the program, with the interposer of its MPI in front.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::mpi::tool {

struct Launch {
    std::string job;     // CAIRN_MPI: record, replay, nothing
    std::string folder;  // CAIRN_MPI_DIR
    std::string mpi;     // "mpich", "openmpi"; "" to find out
    std::vector<std::pair<std::string, std::string>> variables;
    std::vector<std::string> command;
    bool gdb = false;                 // the command under gdb
    std::string working_folder = {};  // of a rank that is debugged; "": this one
};

// Which MPI a command runs under: the one that started us, else that of mpiexec, if the command is one, else
// the one that the program is linked with.
[[nodiscard]] Result<std::string> find_mpi(const std::vector<std::string>& command);

// Doesn't return if all went well.
[[nodiscard]] Result<> run(Launch launch);

}  // namespace cairn::mpi::tool
