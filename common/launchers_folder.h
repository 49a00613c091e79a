// The folder that Open MPI's mpirun makes for its jobs in the folder for temporary files.
#pragma once

#include <string_view>

namespace cairn {

// The part of `path` that leads to such a folder, ompi.HOST.UID (prte.HOST.UID since Open MPI 5), if what
// `path` names is below it; else "". What is in it is what a job's processes tell each other, as in /dev/shm,
// and like that it doesn't outlive a reboot.
[[nodiscard]] std::string_view launchers_folder(std::string_view path);

}  // namespace cairn
