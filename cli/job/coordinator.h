// A session's coordinator, for whoever runs a job or a service in it.
#pragma once

#include <csignal>
#include <string>

#include "cli/job/commands.h"

namespace cairn::job {

struct Coordinator {
    std::string session;
    std::string folder;   // for the checkpoints
    double interval = 0;  // seconds between them; 0: only when asked
    int keep = 0;         // generations; 0: all
    Words more;           // other options of `cairn coordinator`
};

// Returns when the session can be used; also where a coordinator is there already, which stays as it is.
[[nodiscard]] Result<> start_coordinator(const Coordinator& wish);

// A checkpoint with which the programs end. Takes as long as it takes. What is wrong with it is said on
// stderr by the command.
[[nodiscard]] Result<Ended> save_and_end(const std::string& session);

// The programs, where there are any, go on.
void quit_coordinator(const std::string& session);

// All signals that a process can handle, but what a fault of its own raises: they are blocked, and taken one
// by one.
[[nodiscard]] sigset_t handled_signals();

// A line of ours among what the programs print.
void say(const std::string& text);

}  // namespace cairn::job
