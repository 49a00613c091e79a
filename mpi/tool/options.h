// The command line of `cairn mpi`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::mpi::tool {

struct Options {
    std::string verb;
    std::string folder;                // DIR, absolute
    std::vector<std::string> command;  // the program and its arguments
    std::string mpi;
    std::string trace;  // folder for a trace, absolute
    int rank = -1;
    std::string at;
    bool json = false;
    bool wait = false;      // a departure waits for a debugger
    bool contents = false;  // record what is received, too
    bool clock = false;     // and what MPI_Wtime says
    bool gdb = false;
    bool before = false;                               // check-places: before the call, not behind it
    unsigned patience = 10;                            // seconds
    bool no_wait = false;                              // continue: don't wait until all stand again
    bool force = false;                                // record: in place of the record that is there
    bool end = false;                                  // continue: to the end of the program
    double back_within = 1;                            // debug: seconds
    unsigned checkpoints = 32, every = 0, memory = 0;  // MB; 0: half of what is free
};

[[nodiscard]] Result<Options> read_options(std::span<char* const> words);
[[nodiscard]] std::string help(const std::string& verb);

}  // namespace cairn::mpi::tool
