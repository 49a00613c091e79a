// What the page server and whoever takes over from it share.
//
// The server can be killed between any two instructions. An event that has been read is gone from the kernel;
// so it is read directly into this log, and everything that the server knows follows from the log and from
// the images. Pages that have been served already may be offered again: the kernel says EEXIST.
#pragma once

#include <linux/userfaultfd.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/error.h"
#include "restart/pages/identity.h"
#include "restart/pages/order.h"

namespace cairn::restart::pages {

class Log {
  public:
    // Shared with children. `processes`: whose memory is served; their spaces are 0 to processes - 1.
    [[nodiscard]] static Result<Log> create(std::uint32_t processes);
    Log(Log&& other) noexcept;
    Log& operator=(Log&&) = delete;
    ~Log();

    // The descriptor of a process's userfaultfd; -1: it isn't there yet.
    [[nodiscard]] std::atomic<int>& descriptor(std::uint32_t process) const;
    [[nodiscard]] std::uint32_t processes() const { return shared_->processes; }

    // Where the next message is to be read to, cleared. Null when the log is full.
    [[nodiscard]] uffd_msg* slot(SpaceId space) const;
    // The message in the slot is an event, not a page fault.
    void keep() const { shared_->kept.fetch_add(1); }
    // After somebody's death: it may have been killed before it could say so.
    void keep_if_read() const;

    [[nodiscard]] std::uint32_t kept() const { return shared_->kept.load(); }
    [[nodiscard]] std::uint32_t settled() const { return shared_->settled.load(); }
    [[nodiscard]] Event event(std::uint32_t index) const;
    [[nodiscard]] int child_descriptor(std::uint32_t index) const;
    // Everything kept is to be applied in this order (indexes from settled() on; those that aren't named are
    // not applied).
    void settle(std::span<const std::uint32_t> order) const;
    // Kept and settled at once. Only when nothing is unsettled. False: the log is full.
    [[nodiscard]] bool add(const Event& event) const;
    // How much of what is settled has been looked at for what no event tells (MADV_WIPEONFORK).
    [[nodiscard]] std::atomic<std::uint32_t>& heeded() const { return shared_->heeded; }
    // Indexes of what is settled, in the order to apply them.
    [[nodiscard]] std::vector<std::uint32_t> history() const;

    [[nodiscard]] std::atomic<std::uint64_t>& bytes_left() const { return shared_->bytes_left; }
    // Set when the programs have been killed: nobody takes over.
    [[nodiscard]] std::atomic<bool>& failed() const { return shared_->failed; }
    // Everything is in place.
    [[nodiscard]] std::atomic<bool>& finished() const { return shared_->finished; }
    // Who serves, and who waits for its death to replace it.
    [[nodiscard]] std::atomic<Identity>& server() const { return shared_->server; }
    [[nodiscard]] std::atomic<Identity>& guard() const { return shared_->guard; }

  private:
    struct Entry {
        uffd_msg message;
        SpaceId space;
        std::uint32_t place;  // settled: 1 + place in the order, 0: not to be applied
    };
    struct Shared {
        std::uint32_t processes;
        std::atomic<std::uint32_t> kept, settled, heeded;
        std::atomic<std::uint64_t> bytes_left;
        std::atomic<bool> failed, finished;
        std::atomic<Identity> server, guard;
    };
    Log(void* memory, std::size_t size);
    [[nodiscard]] Entry& entry(std::uint32_t index) const { return entries_[index]; }

    std::size_t size_;
    Shared* shared_;
    std::atomic<int>* descriptors_;
    Entry* entries_;
};

}  // namespace cairn::restart::pages
