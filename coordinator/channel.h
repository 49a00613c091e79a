// What two coordinators on different hosts say to each other, apart from sockets: proof of the key, then
// encrypted messages. docs/decisions/0007-several-hosts.md. Bytes go in and come out; nothing here waits or
// reads a clock.
#pragma once

#include <sodium.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "common/error.h"
#include "coordinator/key.h"

namespace cairn::coordinator {

class Channel {
  public:
    enum class Role { root, relay };

    static constexpr std::size_t longest_message = 16 << 20;  // bytes
    // Before the other one has proved itself not more than this is taken from it.
    static constexpr std::size_t longest_greeting = 256;

    // `key` is copied. The relay's greeting is in the output at once.
    Channel(Role role, const Key& key);
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    // Bytes of the other end. An error is the end of the connection: ExitCode::refused if the other one has
    // another key or speaks something else, ExitCode::failed if the stream was damaged.
    [[nodiscard]] Result<> feed(std::string_view bytes);

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

    Role role_;
    Key key_;
    Step step_ = Step::greeting;
    std::string input_;
    std::size_t consumed_ = 0;  // of input_
    std::uint8_t own_public_[crypto_kx_PUBLICKEYBYTES]{}, own_secret_[crypto_kx_SECRETKEYBYTES]{};
    std::uint8_t peer_public_[crypto_kx_PUBLICKEYBYTES]{};
    std::uint8_t receive_key_[crypto_kx_SESSIONKEYBYTES]{}, send_key_[crypto_kx_SESSIONKEYBYTES]{};
    crypto_secretstream_xchacha20poly1305_state receive_{}, send_{};
};

}  // namespace cairn::coordinator
