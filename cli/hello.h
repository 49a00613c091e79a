// The one message that `cairn launch` exchanges with the coordinator (docs/protocol.md, verb hello).
#pragma once

#include <string>
#include <string_view>

namespace cairn::cli {

struct Welcome {
    int code = 0;                 // 0, else an exit code
    std::string problem;          // in words, if code isn't 0
    std::string region;           // path of the session's region
    std::string note;             // what the user should know, or ""
    int processes = 0;            // that are in the session already
    std::string folder = {};      // where checkpoints go
    std::string moved_from = {};  // where those of the processes that are there already went, if that changes
};

// What is given becomes the session's setting.
struct Wishes {
    std::string checkpoint_folder;  // absolute, or ""
    std::string interval;           // seconds as a JSON number, or ""
    std::string keep;               // generations as a JSON number, 0 for all, or ""
    bool self_contained = false;
    std::string coordinator = {};       // HOST:PORT of the root that the session must belong to, or ""
    std::string external = {};          // common/external_policy.h, or ""
    std::string files = {}, with = {};  // common/files_policy.h, or ""
    std::string compress = {};          // common/compression.h, or ""
    bool track_mem = false;             // the kernel is asked which pages were written to
    std::string landlock = {};          // common/landlock_policy.h, or ""
};

// Waits 10 s at most.
[[nodiscard]] Welcome say_hello(int fd, const Wishes& wishes);

// The pieces, for the unit tests.
[[nodiscard]] std::string hello_message(const Wishes& wishes);

// A string or number of a flat JSON object, strings without their escapes; "" if there is none. Fields of
// inner objects are not found.
[[nodiscard]] std::string json_field(std::string_view object, std::string_view name);

}  // namespace cairn::cli
