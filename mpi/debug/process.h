// One process of a rank that is being debugged: it runs alone, or stands still as a checkpoint.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "mpi/debug/wire.h"

namespace cairn::mpi::debug {

// A state of a rank: behind so many events of its trace; `within`: in the call of the next one
// (Moves::within).
struct Spot {
    std::uint64_t position = 0;
    bool within = false;
    auto operator<=>(const Spot&) const = default;
};

// What a process has in memory that is no file's, in bytes.
struct InMemory {
    std::uint64_t share = 0;  // of a page that n processes have it counts an n-th
    std::uint64_t own = 0;    // what no other process has
};
[[nodiscard]] InMemory in_memory(pid_t pid);

// Owned: killed and waited for when it goes. It is a child of this program's, also if another rank's process
// has forked it.
class RankProcess {
  public:
    RankProcess() = default;
    RankProcess(pid_t pid, Fd socket) : pid_(pid), socket_(std::move(socket)) {}
    RankProcess(RankProcess&& other) noexcept : pid_(other.pid_), socket_(std::move(other.socket_)) {
        other.pid_ = -1;
    }
    RankProcess& operator=(RankProcess&& other) noexcept;
    RankProcess(const RankProcess&) = delete;
    RankProcess& operator=(const RankProcess&) = delete;
    ~RankProcess() { end(); }

    [[nodiscard]] bool there() const { return pid_ > 0; }
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] int socket() const { return socket_.get(); }

    // `file` goes along, if it is one.
    [[nodiscard]] Result<> ask(const Command& command, int file = -1) const;

    struct Message {
        Report report;
        std::string text;
        Fd descriptor;
    };
    // What it says next. It may have ended without a word: ended() then says how.
    [[nodiscard]] Result<Message> hear() const;
    // "was killed by signal 11 (Segmentation fault)", of one that has closed its socket.
    [[nodiscard]] std::string how_it_ended();

    void end();

  private:
    pid_t pid_ = -1;
    Fd socket_;
};

}  // namespace cairn::mpi::debug
