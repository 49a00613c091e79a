// What a restart is asked for: the command line of cairn-restart, read (restart/main.cpp).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "resources/restore/objects.h"
#include "restart/clock.h"
#include "restart/rebuild/environment.h"

namespace cairn::restart {

enum class Ids { automatic, exact, virtual_ids };
enum class Memory { automatic, eager, lazy };  // docs/decisions/0002-restart-memory.md

struct Options {
    std::string directory;
    std::string host;     // whose part of a checkpoint over several; "": this one's
    std::string session;  // "": the one that it was taken in
    std::vector<int> parts;
    Ids ids = Ids::automatic;
    std::optional<int> wait_seconds;  // for the other parts; none: for ever
    Clocks clocks = Clocks::automatic;
    Memory memory = Memory::automatic;
    bool trust_folder = false;  // though others can write where it lies
    bool check_only = false;
    bool quiet = false;
    bool pause = false;  // stand still before the first instruction
    std::vector<EnvironmentChange> environment;
    bool verbose = false;  // every note, also where many are alike
    bool verify = false;   // says what the kernel shows otherwise than before
    FilePolicy files = FilePolicy::by_rule;
    bool restore_files = false;  // --files=restore: there have to be saved ones
    std::vector<std::pair<std::string, std::string>> path_map;
};

}  // namespace cairn::restart
