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
    std::vector<Json> all;
    if (said.is_array())
        for (const Json& one : said)
            if (one.is_object()) all.push_back(one);
    if (said.is_object()) all = {said, said};
    try {
        if (match_connections(all).size() != all.size()) std::abort();
    } catch (const Json::exception&) {
        // The link, or the peer, ends for it: whoever sends this is told so.
    }
    return 0;
}
