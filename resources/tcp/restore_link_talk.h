// What two parts of a restart tell each other over a connection before it is their programs' again:
// encrypted, each sure that the other is who the coordinator has sent.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>

#include "common/channel/channel.h"
#include "common/error.h"
#include "common/schema/process.h"
#include "common/wire/connections.h"

namespace cairn::restart {

class LinkTalk {
  public:
    // Waits a moment for these events of a descriptor and returns what poll(2) says; an error once nobody
    // wants the restart any more.
    using Wait = std::function<Result<short>(int fd, short events)>;

    struct Said {
        wire::EndSays words;
        schema::Bytes bytes;
    };

    // `fd`, not blocking, and `channel` are borrowed.
    LinkTalk(int fd, Channel& channel, Wait wait) : fd_(fd), channel_(channel), wait_(std::move(wait)) {}

    // Who calls: says `token`, proves the key and is proved it.
    [[nodiscard]] Result<> prove(const std::string& token, std::chrono::seconds patience);

    // Both say something to each other at the same time. `most`: bytes that the other one may have.
    // Afterwards nothing of what follows on the connection has been taken from it.
    [[nodiscard]] Result<Said> swap(const wire::EndSays& words, std::span<const std::uint8_t> bytes,
                                    std::uint64_t most);

  private:
    using Clock = std::chrono::steady_clock;

    // One round of waiting, sending and (if there is more to come) receiving. True if a byte moved.
    [[nodiscard]] Result<bool> move(bool hear);

    int fd_;
    Channel& channel_;
    Wait wait_;
};

}  // namespace cairn::restart
