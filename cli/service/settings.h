// What a service is made of: the lines of its file.
#pragma once

#include <string>
#include <vector>

#include "cli/job/commands.h"
#include "common/error.h"

namespace cairn::service {

// Whose services: the machine's (/etc/cairn/services) or a user's ($XDG_CONFIG_HOME/cairn/services).
enum class Owner { system, user };

// When the programs may begin anew.
enum class Fresh {
    first,     // where no checkpoint has been taken yet
    if_needed  // also where none is good, or the newest good one is refused
};

struct Settings {
    std::string name;
    Owner owner = Owner::system;
    std::string file;                  // where they are from
    std::vector<job::Words> programs;  // in the order in which they are launched
    std::string working;               // folder in which they are; "": where we are
    std::string folder;                // for the checkpoints of this service
    double interval = 600;             // seconds between checkpoints; 0: only when the service is stopped
    int keep = 3;                      // generations
    Fresh fresh = Fresh::first;
    bool verify = true;               // read a checkpoint through before it is taken for good
    bool sync = true;                 // CAIRN_SYNC
    bool full = true;                 // CAIRN_FULL
    std::string external = "reset";   // as of `cairn launch`
    std::string landlock = "refuse";  // the same
    std::string files = "auto";       // as of `cairn restart`
    std::string ids = "auto";         // as of `cairn restart`

    [[nodiscard]] std::string session() const { return "service-" + name; }
};

// 1 to 40 of letters, digits, '.', '_', '-'; not first '.' or '-'.
[[nodiscard]] Result<> check_name(const std::string& name);

[[nodiscard]] Result<Settings> read_settings(const std::string& name, Owner owner);

// The lines NAME=VALUE; a line that begins with '#' is a comment. Takes what is there into `settings`.
[[nodiscard]] Result<> read_lines(const std::string& text, const std::string& where, Settings& settings);

// Words as a shell would make them of quotes and backslashes, and of nothing else: no variable, no pattern,
// no pipe.
[[nodiscard]] Result<job::Words> split_words(const std::string& line);

}  // namespace cairn::service
