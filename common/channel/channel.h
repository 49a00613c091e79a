// What two of cairn's say to each other over a network, apart from sockets: proof of a key, then encrypted
// messages. Coordinators on different hosts prove the computation's key, two parts of a restart that of a
// connection between them. docs/decisions/0007-several-hosts.md. Bytes go in and come out; nothing here waits
// or reads a clock.
#pragma once

#include <sodium.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "common/channel/key.h"
#include "common/error.h"

namespace cairn {

class Channel {
  public:
    // The relay, or the part that calls, proves itself first.
    enum class Role { root, relay };
    // Who is at its ends: what is meant for one kind is nothing to the other.
    enum class Between { coordinators, parts };

    static constexpr std::size_t longest_message = 16 << 20;  // bytes
    // Before the other one has proved itself not more than this is taken from it.
    static constexpr std::size_t longest_greeting = 256;

    // `key` is copied. The relay's greeting is in the output at once.
    Channel(Role role, const Key& key, Between between = Between::coordinators);
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    // Bytes of the other end. An error is the end of the connection: ExitCode::refused if the other one has
    // another key or speaks something else, ExitCode::failed if the stream was damaged.
    [[nodiscard]] Result<> feed(std::string_view bytes);

    // So many bytes more complete what is being received. Who takes no more than these from a socket leaves
    // what follows on it to others. At least 1.
    [[nodiscard]] std::size_t wanted() const;

    // Both have proved that they have the key.
    [[nodiscard]] bool proved() const { return step_ == Step::open; }
    // The other end speaks our language and has not proved itself yet.
    [[nodiscard]] bool greeted() const { return step_ == Step::proof; }

    // Puts a message into the output. Only when proved.
    [[nodiscard]] Result<> send(const std::string& message);

    std::deque<std::string> messages;  // received; the caller takes them out
    std::string output;                // to be written; the caller takes it out

  private:
    enum class Step { greeting, proof, open, broken };

    [[nodiscard]] Result<> take_greeting(std::string_view bytes);
    [[nodiscard]] Result<> take_proof(std::string_view bytes);
    [[nodiscard]] Result<> take_frames();
    [[nodiscard]] std::string proof_of(Role role) const;
    void greet();
    void prove();
    [[nodiscard]] Result<> damaged(const char* what);

    [[nodiscard]] std::string_view magic() const;
    [[nodiscard]] std::size_t frame_length() const;  // with at least 4 bytes unread

    Role role_;
    Between between_;
    Key key_;
    Step step_ = Step::greeting;
    std::string input_;
    std::size_t consumed_ = 0;  // of input_
    std::uint8_t own_public_[crypto_kx_PUBLICKEYBYTES]{}, own_secret_[crypto_kx_SECRETKEYBYTES]{};
    std::uint8_t peer_public_[crypto_kx_PUBLICKEYBYTES]{};
    std::uint8_t receive_key_[crypto_kx_SESSIONKEYBYTES]{}, send_key_[crypto_kx_SESSIONKEYBYTES]{};
    crypto_secretstream_xchacha20poly1305_state receive_{}, send_{};
};

}  // namespace cairn
