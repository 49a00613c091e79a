// What a client of the Unix socket, or a host, says: JSON of any shape, through the rules of the restart
// barrier and the matching of connections.
#include <cstdlib>

#include "coordinator/group.h"
#include "coordinator/joint_checkpoint.h"
#include "coordinator/network.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    using namespace cairn::coordinator;
    const std::string text(reinterpret_cast<const char*>(bytes), size);
    (void)parse_endpoint(text);
    const Json said = Json::parse(text, nullptr, false);
    if (said.is_discarded()) return 0;
    std::vector<cairn::wire::HostConnections> all;
    for (const Json& one : said.is_array() ? said : Json::array({said, said}))
        if (auto read = cairn::wire::unpack<cairn::wire::HostConnections>(one))
            all.push_back(std::move(*read));
    if (match_connections(all).size() != all.size()) std::abort();
    return 0;
}
