// What an image says of an MPTCP socket (IPPROTO_MPTCP) that isn't connected.
#pragma once

#include <sys/socket.h>

#include <optional>

#include "common/schema/field.h"
#include "resources/socket/schema.h"

namespace cairn::schema {

struct Mptcp {
    static constexpr std::string_view kind = "mptcp";
    std::int32_t domain = AF_INET;
    Bytes own;                             // sockaddr of what it is bound to; empty: nothing
    std::optional<std::uint32_t> backlog;  // listen(2)'s, as the kernel has cut it; none: it doesn't listen
    bool keep_listening = false;           // another port will do at the restart (--external=keep-listening)
    std::int32_t reuse_address = 0;        // SO_REUSEADDR
    SocketOptions options;
};

template <Struct<Mptcp> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD_WITHIN(domain, AF_INET, AF_INET6);
    CAIRN_FIELD(own);
    CAIRN_FIELD(backlog);
    CAIRN_FIELD(keep_listening);
    CAIRN_FIELD(reuse_address);
    CAIRN_FIELD(options);
}

}  // namespace cairn::schema
