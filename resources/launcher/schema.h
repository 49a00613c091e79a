// What an image says of a socket that led to an MPI launcher outside the group: what a restart, which answers
// in the launcher's place, has to know of the rank.
#pragma once

#include <string>
#include <vector>

#include "common/program_fd.h"
#include "common/schema/field.h"

namespace cairn::schema {

struct LauncherRank {
    ProgramFd fd;                        // in the rank
    std::int32_t rank = 0, size = 0;     // which it is, of how many
    std::string job;                     // PMIx: the job's namespace; "": PMI 1
    std::vector<std::uint32_t> awaited;  // PMIx: tags of the questions that were not answered
};

template <Struct<LauncherRank> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(fd);
    CAIRN_FIELD(rank);
    CAIRN_FIELD(size);
    CAIRN_FIELD(job);
    CAIRN_FIELD(awaited);
}

}  // namespace cairn::schema
