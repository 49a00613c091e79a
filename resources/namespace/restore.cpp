// Descriptors of namespaces: opened anew, of the namespaces that the processes are in now.
#include <fcntl.h>

#include "resources/restore/opening.h"

namespace cairn::restart {

Result<Fd> open_namespace(Opening&, const schema::Object&, const schema::Namespace& saved) {
    // The processes are in the tool's namespaces, but for one: they are born into the time namespace that it
    // may have made for its children (restart/clock.cpp).
    const bool of_children = saved.type == schema::NamespaceType::time;
    const std::string path =
        fmt::format("/proc/self/ns/{}{}", schema::name_of(saved.type), of_children ? "_for_children" : "");
    Fd opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened) return fail_errno("{}", path);
    return opened;
}

}  // namespace cairn::restart
