// What arrives at a coordinator from other hosts: the first byte says who listens and what came before, the
// rest is fed in pieces. Nothing that a stranger says is taken for a message.
#include <cstdlib>

#include "common/channel/channel.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    using namespace cairn;
    if (size < 2) return 0;
    static const Key key = *Key::parse(std::string(64, 'a'), "fuzz");
    const bool root = (bytes[0] & 1U) != 0, proved = (bytes[0] & 2U) != 0;
    const std::size_t piece = 1 + bytes[1];
    Channel one(root ? Channel::Role::root : Channel::Role::relay, key);
    Channel other(root ? Channel::Role::relay : Channel::Role::root, key);
    if (proved)
        for (int i = 0; i < 4; ++i) {
            if (!other.feed(std::exchange(one.output, {})) || !one.feed(std::exchange(other.output, {})))
                std::abort();
        }
    if (proved != one.proved()) std::abort();
    const std::string_view said(reinterpret_cast<const char*>(bytes) + 2, size - 2);
    for (std::size_t at = 0; at < said.size(); at += piece)
        if (!one.feed(said.substr(at, piece))) break;
    if (!one.messages.empty() || (!proved && one.proved())) std::abort();
    return 0;
}
