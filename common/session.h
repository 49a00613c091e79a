// Where a session lives: its folder and the files in it.
//
// The static front command links this as well, so nothing but the C library and std::string is used here.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

inline constexpr std::string_view default_session = "default";

struct Session {
    std::string name;
    std::string directory;  // absolute, no slash at the end

    [[nodiscard]] std::string region() const { return directory + "/region"; }
    [[nodiscard]] std::string socket() const { return directory + "/socket"; }
    [[nodiscard]] std::string lock() const { return directory + "/lock"; }  // held (flock) by the coordinator
    // Locked (flock) as long as a restart's memory is still coming from its image.
    [[nodiscard]] std::string pages() const { return directory + "/pages"; }
    // For a coordinator that is started again: of which users there are regions, and which memory they are.
    [[nodiscard]] std::string users() const { return directory + "/users"; }
    [[nodiscard]] std::string pid_file() const { return directory + "/coordinator.pid"; }
    [[nodiscard]] std::string log() const { return directory + "/coordinator.log"; }
};

// Errors are sentences for the user.
template <class T>
using SessionResult = std::expected<T, std::string>;

// "" if `name` may name a session, else why not. 1 to 63 of letters, digits, '.', '_', '-'; not first '.' or
// '-'.
[[nodiscard]] std::string session_name_problem(std::string_view name);

// `given`, else $CAIRN_SESSION, else "default".
[[nodiscard]] std::string session_name(std::string_view given);

// $CAIRN_RUNDIR, else /tmp/cairn-UID; $XDG_RUNTIME_DIR/cairn only if that is somebody else's: logind removes
// it when the user logs out, and programs go on. Not created, not checked.
[[nodiscard]] std::string run_directory();

// For a client: the paths only. Fails when the name is bad or the folder exists but belongs to another user
// (root may look at anybody's that CAIRN_RUNDIR names). The folder need not exist.
[[nodiscard]] SessionResult<Session> find_session(std::string_view name);

// For who starts a coordinator: the folder is made (0700) if it is missing, and refused if it is not a folder
// or belongs to someone else: /tmp is open to all, and who owns the folder could put a socket or region
// there.
[[nodiscard]] SessionResult<Session> make_session(std::string_view name);

// Names of the sessions that have a folder, sorted.
[[nodiscard]] std::vector<std::string> known_sessions();

// Connects to the session's coordinator: SOCK_SEQPACKET, close-on-exec, blocking. Returns the descriptor, or
// -errno (ENOENT, ECONNREFUSED: no coordinator answers; EPERM: who listens is not the folder's owner).
[[nodiscard]] int connect_session(const Session& session);

// What connect_session() returned, in words.
[[nodiscard]] std::string connection_problem(const Session& session, int number);

}  // namespace cairn
