// What an image says of a vsock(7) socket that isn't connected.
#pragma once

#include <optional>

#include "common/schema/field.h"
#include "resources/socket/schema.h"

namespace cairn::schema {

// As struct sockaddr_vm has it.
struct VsockAddress {
    std::uint32_t cid = 0;  // of this machine; VMADDR_CID_ANY: whichever it has
    std::uint32_t port = 0;
};

// SO_VM_SOCKETS_BUFFER_SIZE, _BUFFER_MIN_SIZE, _BUFFER_MAX_SIZE: bytes that a connection may hold, and the
// limits that the program has set to that.
struct VsockBuffer {
    std::uint64_t size = 0, least = 0, most = 0;
};

struct Vsock {
    static constexpr std::string_view kind = "vsock";
    bool seqpacket = false;           // SOCK_SEQPACKET; else SOCK_STREAM
    std::optional<VsockAddress> own;  // none: it isn't bound
    bool listening = false;
    VsockBuffer buffer;
    std::int64_t connect_seconds = 0, connect_microseconds = 0;  // SO_VM_SOCKETS_CONNECT_TIMEOUT
    std::int32_t reuse_address = 0;  // SO_REUSEADDR: the kernel keeps it, and does nothing with it
    SocketOptions options;
};

template <Struct<VsockAddress> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(cid);
    CAIRN_FIELD(port);
}

template <Struct<VsockBuffer> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(size);
    CAIRN_FIELD(least);
    CAIRN_FIELD(most);
}

template <Struct<Vsock> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(seqpacket);
    CAIRN_FIELD(own);
    CAIRN_FIELD(listening);
    CAIRN_FIELD(buffer);
    CAIRN_FIELD_WITHIN(connect_seconds, 0, INT64_MAX);
    CAIRN_FIELD_WITHIN(connect_microseconds, 0, 999'999);
    CAIRN_FIELD(reuse_address);
    CAIRN_FIELD(options);
}

}  // namespace cairn::schema
