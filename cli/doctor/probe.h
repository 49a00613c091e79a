// What the doctor looks at: how each thing is tried, and what follows for cairn from what was seen.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>

#include "cli/doctor/attempt.h"

namespace cairn::doctor {

enum class Group { checkpoint, restart, speed, storage, limits };
// slower: all is done, in more time. note: worth knowing. missing: something can't be done.
enum class State { ok, slower, note, missing };

struct Line {
    Group group = Group::checkpoint;
    std::string name{};  // as in --json: stays the same
    State state = State::ok;
    bool needed = false;  // missing: without it cairn doesn't work here
    std::string found{};
    std::string meaning{};  // for cairn; "" where all is well
    std::string remedy{};   // what to do, and who
};

// What is looked at, by whom.
struct Setting {
    uid_t user = 0;
    bool root = false;
    std::string who{"an ordinary user"};  // in the verdict
    std::string folder{};                 // for checkpoints, absolute
    std::string above{};                  // the part of it that was there before the doctor came
    std::string folder_problem{};         // why it can't be made
    std::string session{};                // the doctor's own
    std::string work{};                   // the doctor's own folder in `folder`
    std::string library{}, front{}, self{};
};

struct Probe {
    Group group = Group::checkpoint;
    std::string_view name;
    Observation (*attempt)(const Setting&) = nullptr;
    // Where it didn't work:
    State otherwise = State::missing;
    bool needed = false;
    std::string_view meaning{};
    std::string_view remedy{};
    // For what isn't as simple: changes the line that the rule above has made.
    void (*refine)(Line&, const Observation&, const Setting&) = nullptr;
};

[[nodiscard]] std::span<const Probe> container_probes();
[[nodiscard]] std::span<const Probe> checkpoint_probes();
[[nodiscard]] std::span<const Probe> socket_probes();
[[nodiscard]] std::span<const Probe> restart_probes();
[[nodiscard]] std::span<const Probe> speed_probes();
[[nodiscard]] std::span<const Probe> storage_probes();
[[nodiscard]] std::span<const Probe> limit_probes();
[[nodiscard]] std::span<const Probe> rehearsal_probes();

[[nodiscard]] Line judge(const Probe& probe, const Observation& seen, const Setting& setting);

// The one of that name; nullptr if there is none.
[[nodiscard]] const Probe* find_probe(std::string_view name);

// A program of the session, for the rehearsal: has some memory, waits for the file, and ends with
// rehearsal_code if all that it had is as it was.
inline constexpr int rehearsal_code = 42;
[[nodiscard]] int rehearse(const char* file);

// Takes away whatever the rehearsal has left.
void clean_up(const Setting& setting);

}  // namespace cairn::doctor
