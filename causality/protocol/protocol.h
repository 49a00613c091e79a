// Checkpointing protocols that send no messages of their own: what they need rides on the program's (Raynal
// 2013, chapter 8). The same objects run in the simulator and inside programs; for two of them the simulator
// has a form of its own (together.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "causality/recovery.h"
#include "common/error.h"

namespace cairn::causality {

enum class ProtocolKind : std::uint8_t { uncoordinated, bcs, bcs_sent, russell, fdas, bhmr, logging };
inline constexpr std::array every_protocol = {
    ProtocolKind::uncoordinated, ProtocolKind::bcs,  ProtocolKind::bcs_sent, ProtocolKind::russell,
    ProtocolKind::fdas,          ProtocolKind::bhmr, ProtocolKind::logging};

// How piggybacks are written. `differences`: only what has changed since the last message to the same process
// (Singhal, Kshemkalyani 1992); needs channels that neither lose nor reorder.
enum class Encoding : std::uint8_t { full, differences };

// The part of one process. Calls come from one thread at a time, none of them allocates but for a log that
// outgrows its room, and all but load() leave the object as it was when they fail.
//
// The initial state is a checkpoint, taken by the constructor. A message arrives in two steps: receive() says
// whether a checkpoint must come first; then the host saves its state, calls take_checkpoint(); then, in any
// case, deliver(), and the program gets the message.
class Protocol {
  public:
    Protocol(Process self, Process processes) : self_(self), n_(processes) {}
    Protocol(const Protocol&) = delete;
    Protocol& operator=(const Protocol&) = delete;
    virtual ~Protocol() = default;

    [[nodiscard]] Process self() const { return self_; }
    [[nodiscard]] Process processes() const { return n_; }

    // A checkpoint is taken, a basic one or one that receive() has asked for.
    virtual void take_checkpoint() = 0;
    // Writes what goes with a message to `to`, most_piggyback() bytes at most; returns how many.
    [[nodiscard]] virtual std::size_t send(Process to, std::span<std::uint8_t> into) = 0;
    // True: a checkpoint before delivery. Code damaged: these bytes are no piggyback of this protocol.
    [[nodiscard]] virtual Result<bool> receive(Process from, std::span<const std::uint8_t> piggyback) = 0;
    // The message of the last receive() is being delivered.
    virtual void deliver() = 0;

    [[nodiscard]] virtual std::size_t most_piggyback() const = 0;
    // The state, to be saved with the process's and put back with it, into an object made with the same
    // arguments. Channels are taken to be empty then: the next differences are to nothing.
    [[nodiscard]] virtual std::size_t stored_size() const = 0;
    virtual void store(std::span<std::uint8_t> into) const = 0;  // stored_size() bytes
    [[nodiscard]] virtual Result<> load(std::span<const std::uint8_t> from) = 0;

    // Of the last checkpoint, where the protocol has it.
    [[nodiscard]] virtual std::optional<DatedCheckpoint> date() const { return std::nullopt; }
    [[nodiscard]] virtual std::span<const std::uint32_t> vector() const { return {}; }
    // Messages that are logged in memory now.
    [[nodiscard]] virtual std::size_t logged() const { return 0; }

  protected:
    [[nodiscard]] static std::unexpected<Error> damaged() {
        return fail_code(ExitCode::damaged,
                         "the control data of a message is damaged, or another protocol's");
    }
    const Process self_;
    const Process n_;
};

[[nodiscard]] std::unique_ptr<Protocol> make_protocol(ProtocolKind kind, Process self, Process processes,
                                                      Encoding encoding = Encoding::full);
[[nodiscard]] std::string_view name(ProtocolKind kind);
[[nodiscard]] std::optional<ProtocolKind> protocol_named(std::string_view name);

}  // namespace cairn::causality
