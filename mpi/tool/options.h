// The command line of `cairn mpi`.
#pragma once

#include <optional>
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
    bool wait = false;                      // a departure waits for a debugger
    bool contents = false;                  // record what is received, too
    std::string checkpoints_of;             // record: by this protocol
    std::string checkpoint_every = "1000";  // calls, or seconds with an s
    std::string failed;                     // recovery-line: ranks; "": all
    std::string from;                       // debug: "R,..." or "all"; "": the beginning
    bool clock = false;                     // and what MPI_Wtime says
    bool gdb = false;
    bool dap = false;                                  // debug: for an editor
    bool live = false;                                 // debug: the whole job
    bool web = false;                                  // debug: and a page for a browser
    unsigned short port = 0;                           // its; 0: any
    bool before = false;                               // check-places: before the call, not behind it
    unsigned patience = 10;                            // seconds
    bool no_wait = false;                              // continue: don't wait until all stand again
    bool force = false;                                // record: in place of the record that is there
    bool end = false;                                  // continue: to the end of the program
    double back_within = 1;                            // debug: seconds
    unsigned checkpoints = 32, every = 0, memory = 0;  // MB; 0: half of what is free
    unsigned images = 0;                               // debug: MB on the disk; 0: none are made
    double repeat = 0;                                 // trim: again after so many seconds; 0: once
    std::string working_folder;                        // trim: of the ranks, absolute; "": this one
    bool may_write = false;                            // trim: the ranks may write to any file
};

// "fdas 1000 calls", as the interposer takes it; nothing: the interval is none.
[[nodiscard]] std::optional<std::string> checkpoint_wish(const Options& options);

[[nodiscard]] Result<Options> read_options(std::span<char* const> words);
[[nodiscard]] std::string help(const std::string& verb);

}  // namespace cairn::mpi::tool
