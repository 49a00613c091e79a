#include "restart/moved_hosts.h"

#include <algorithm>

#include "common/socket_names.h"
#include "resources/socket/restore_addresses.h"

namespace cairn::restart {
namespace {

void note_moved(const Address& known, const std::vector<std::string>& now, SocketNames& names) {
    for (const auto& each : now) {
        const Address fresh = Address::parse(each, 0);
        if (known.empty() || fresh.domain() != known.domain()) continue;
        const auto family = static_cast<std::uint32_t>(known.domain());
        const auto [old_bytes, size] = known.host_bytes();
        const auto [new_bytes, same] = fresh.host_bytes();
        if (find_moved_host(names, family, old_bytes.data(), size) == nullptr)
            (void)add_moved_host(names, family, old_bytes.data(), new_bytes.data(), size);
        return;
    }
}

}  // namespace

std::vector<std::string> addresses_now(const std::vector<wire::PartAt>& places) {
    std::vector<std::string> all;
    for (const auto& place : places) all.insert(all.end(), place.addresses.begin(), place.addresses.end());
    return all;
}

void note_moved_hosts(const schema::Manifest& manifest, const std::vector<wire::PartAt>& places,
                      SocketNames& names) {
    for (const auto& host : manifest.hosts) {
        std::vector<std::string> now;
        for (const auto& place : places)
            if (now.empty() && std::ranges::find(host.parts, place.number) != host.parts.end())
                now = place.addresses;
        if (now.empty()) continue;
        for (const auto& text : host.addresses)
            if (std::ranges::find(now, text) == now.end()) note_moved(Address::parse(text, 0), now, names);
    }
}

}  // namespace cairn::restart
