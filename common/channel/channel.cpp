#include "common/channel/channel.h"

#include <cstring>

namespace cairn {
namespace {

// The digit is the version of all that is said.
constexpr std::string_view coordinators_magic = "CAIRN-2\n", parts_magic = "CAIRNP2\n";
constexpr std::size_t magic_size = coordinators_magic.size();
static_assert(parts_magic.size() == magic_size);
constexpr std::size_t proof_size = crypto_generichash_BYTES;
constexpr std::size_t header_size = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
constexpr std::size_t greeting_size = magic_size + crypto_kx_PUBLICKEYBYTES;
constexpr std::size_t seal = crypto_secretstream_xchacha20poly1305_ABYTES;

const std::uint8_t* bytes_of(const char* text) {
    return reinterpret_cast<const std::uint8_t*>(text);
}
std::string_view text_of(const std::uint8_t* bytes, std::size_t size) {
    return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

Channel::Channel(Role role, const Key& key, Between between) : role_(role), between_(between), key_(key) {
    if (::sodium_init() < 0) {
        step_ = Step::broken;
        return;
    }
    ::crypto_kx_keypair(own_public_, own_secret_);
    if (role_ == Role::relay) greet();
}

Channel::~Channel() {
    ::sodium_memzero(own_secret_, sizeof own_secret_);
    ::sodium_memzero(receive_key_, sizeof receive_key_);
    ::sodium_memzero(send_key_, sizeof send_key_);
    ::sodium_memzero(key_.bytes.data(), key_.bytes.size());
}

std::string_view Channel::magic() const {
    return between_ == Between::coordinators ? coordinators_magic : parts_magic;
}

void Channel::greet() {
    output += magic();
    output += text_of(own_public_, sizeof own_public_);
}

std::string Channel::proof_of(Role role) const {
    const bool relay_here = role_ == Role::relay;
    std::string said = role == Role::root ? "root " : "relay";
    if (between_ == Between::parts) said += parts_magic;
    said += text_of(relay_here ? own_public_ : peer_public_, sizeof own_public_);
    said += text_of(relay_here ? peer_public_ : own_public_, sizeof own_public_);
    std::string proof(proof_size, '\0');
    ::crypto_generichash(reinterpret_cast<std::uint8_t*>(proof.data()), proof.size(), bytes_of(said.data()),
                         said.size(), key_.bytes.data(), key_.bytes.size());
    return proof;
}

void Channel::prove() {
    output += proof_of(role_);
    std::uint8_t header[header_size];
    ::crypto_secretstream_xchacha20poly1305_init_push(&send_, header, send_key_);
    output += text_of(header, sizeof header);
}

Result<> Channel::damaged(const char* what) {
    step_ = Step::broken;
    input_.clear();
    consumed_ = 0;
    return fail("what came from the other host is damaged: {}", what);
}

Result<> Channel::take_greeting(std::string_view bytes) {
    if (!bytes.starts_with(magic())) {
        step_ = Step::broken;
        constexpr std::size_t digit = magic_size - 2;
        if (bytes.size() >= magic_size && bytes.starts_with(magic().substr(0, digit)) &&
            bytes[digit] >= '0' && bytes[digit] <= '9')
            return fail_code(ExitCode::refused,
                             "the other end speaks version {} of what is said between hosts, this is version "
                             "{}: all hosts need the same cairn",
                             bytes[digit], magic()[digit]);
        return fail_code(ExitCode::refused, "the other end is no {} of cairn's",
                         between_ == Between::coordinators ? "coordinator" : "restart");
    }
    std::memcpy(peer_public_, bytes.data() + magic_size, sizeof peer_public_);
    // Fails for a key of low order only, which nobody has by chance.
    const int problem =
        role_ == Role::root
            ? ::crypto_kx_server_session_keys(receive_key_, send_key_, own_public_, own_secret_, peer_public_)
            : ::crypto_kx_client_session_keys(receive_key_, send_key_, own_public_, own_secret_,
                                              peer_public_);
    if (problem != 0) return damaged("its key");
    for (auto* key : {receive_key_, send_key_}) {
        std::uint8_t mixed[crypto_kx_SESSIONKEYBYTES];
        ::crypto_generichash(mixed, sizeof mixed, key, sizeof mixed, key_.bytes.data(), key_.bytes.size());
        std::memcpy(key, mixed, sizeof mixed);
    }
    step_ = Step::proof;
    // The relay proves itself first: the root says nothing that depends on the key to a stranger.
    if (role_ == Role::root)
        greet();
    else
        prove();
    return {};
}

Result<> Channel::take_proof(std::string_view bytes) {
    const std::string expected = proof_of(role_ == Role::root ? Role::relay : Role::root);
    if (::sodium_memcmp(expected.data(), bytes.data(), proof_size) != 0) {
        step_ = Step::broken;
        return fail_code(ExitCode::refused, "the other end has another key");
    }
    if (::crypto_secretstream_xchacha20poly1305_init_pull(&receive_, bytes_of(bytes.data() + proof_size),
                                                          receive_key_) != 0)
        return damaged("the stream's header");
    if (role_ == Role::root) prove();
    step_ = Step::open;
    return {};
}

Result<> Channel::take_frames() {
    for (;;) {
        const std::size_t have = input_.size() - consumed_;
        if (have < 4) break;
        const auto* head = bytes_of(input_.data() + consumed_);
        const std::size_t length = frame_length();
        if (length < seal || length > longest_message + seal) return damaged("a length that nothing has");
        if (have - 4 < length) break;
        std::string message(length - seal, '\0');
        unsigned char tag = 0;
        if (::crypto_secretstream_xchacha20poly1305_pull(&receive_,
                                                         reinterpret_cast<std::uint8_t*>(message.data()),
                                                         nullptr, &tag, head + 4, length, nullptr, 0) != 0)
            return damaged("a message that was changed on its way");
        consumed_ += 4 + length;
        messages.push_back(std::move(message));
    }
    // Only now and then: moving the rest for every small message would take quadratic time.
    if (consumed_ == input_.size()) {
        input_.clear();
        consumed_ = 0;
    } else if (consumed_ > (std::size_t{1} << 20)) {
        input_.erase(0, consumed_);
        consumed_ = 0;
    }
    return {};
}

std::size_t Channel::wanted() const {
    const std::size_t have = input_.size() - consumed_;
    std::size_t needed = 4;
    if (step_ == Step::greeting)
        needed = greeting_size;
    else if (step_ == Step::proof)
        needed = proof_size + header_size;
    else if (have >= 4)
        needed += frame_length();
    return needed > have ? needed - have : 1;
}

std::size_t Channel::frame_length() const {
    const auto* head = bytes_of(input_.data() + consumed_);
    return head[0] | std::size_t{head[1]} << 8 | std::size_t{head[2]} << 16 | std::size_t{head[3]} << 24;
}

Result<> Channel::feed(std::string_view bytes) {
    if (step_ == Step::broken) return fail("the connection has ended");
    input_ += bytes;
    if (step_ == Step::greeting) {
        // Whoever begins in another way isn't listened to further.
        const std::size_t known = std::min(input_.size(), magic_size);
        const std::string_view begun = std::string_view(input_).substr(0, known);
        // Another version's is read up to its number, so that it can be named.
        const std::size_t common = std::min(known, magic_size - 2);
        if (begun.substr(0, common) != magic().substr(0, common) || (known == magic_size && begun != magic()))
            return take_greeting(input_);
        if (input_.size() < greeting_size) return {};
        CHECK_OK(take_greeting(std::string_view(input_).substr(0, greeting_size)));
        input_.erase(0, greeting_size);
    }
    if (step_ == Step::proof) {
        // Nobody sends more before he has seen our proof, but for the relay, which sees ours last.
        if (role_ == Role::root && input_.size() > longest_greeting)
            return damaged("too much before its proof");
        if (input_.size() < proof_size + header_size) return {};
        CHECK_OK(take_proof(std::string_view(input_).substr(0, proof_size + header_size)));
        input_.erase(0, proof_size + header_size);
    }
    return take_frames();
}

Result<> Channel::send(const std::string& message) {
    if (step_ != Step::open) return fail("nothing is said before the key is proved");
    if (message.size() > longest_message)
        return fail("a message of {} bytes is too long for another host", message.size());
    const std::size_t length = message.size() + seal;
    const std::size_t at = output.size();
    output.resize(at + 4 + length);
    auto* head = reinterpret_cast<std::uint8_t*>(output.data() + at);
    for (int i = 0; i < 4; ++i) head[i] = static_cast<std::uint8_t>(length >> (8 * i));
    ::crypto_secretstream_xchacha20poly1305_push(&send_, head + 4, nullptr, bytes_of(message.data()),
                                                 message.size(), nullptr, 0,
                                                 crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
    return {};
}

}  // namespace cairn
